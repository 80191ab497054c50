"""A child process that answers with llama-cpp-python's own `Llama`: JSON lines, questions on stdin, replies on stdout.

Run by `edgespec.bench.baseline`, with a model and settings of which only the length of the context matters. Times are
taken here, so the way to the parent and back is in none of them. It ends when stdin does. Knows no engine and no arm.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from edgespec.backend.settings import LlamaSettings
from edgespec.backend.trial import REFUSED, die_quietly
from edgespec.errors import EdgeSpecError
from edgespec.events import Finish

if TYPE_CHECKING:
    from edgespec.backend.llama.library import LibraryDefaults


@dataclass(frozen=True, slots=True)
class Question:
    """tokens: the prompt, at least one. The answer ends before one of `end_tokens` or after `max_tokens`."""

    tokens: tuple[int, ...]
    max_tokens: int
    end_tokens: tuple[int, ...]

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Question:
        raw = json.loads(line)
        return cls(tuple(map(int, raw["tokens"])), int(raw["max_tokens"]), tuple(map(int, raw["end_tokens"])))


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; the first reply of a child, after loading, is an empty one.

    read_seconds: for all of the prompt but its last token. first_token_seconds: from the question to the first token.
    decode_seconds: from the end of reading to the end. passes: after reading. refused: an ordinary error instead.
    """

    token_ids: tuple[int, ...] = ()
    read_seconds: float = 0.0
    first_token_seconds: float = 0.0
    decode_seconds: float = 0.0
    passes: int = 0
    finish: Finish = Finish.LENGTH
    refused: str = ""

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Reply:
        """Raises ValueError for a line that is no reply."""
        try:
            raw = json.loads(line)
            return cls(
                tuple(map(int, raw["token_ids"])),
                float(raw["read_seconds"]),
                float(raw["first_token_seconds"]),
                float(raw["decode_seconds"]),
                int(raw["passes"]),
                Finish(raw["finish"]),
                str(raw["refused"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no reply: {line.strip()[:80]!r}") from error


def answer(library: LibraryDefaults, question: Question, clock: Callable[[], float]) -> Reply:
    """As if the prompt were the first one ever: the library forgets what it read before."""
    prompt, started = question.tokens, clock()
    library.read(prompt[:-1])
    read = first = clock()
    tokens: list[int] = []
    passes, finish = 0, Finish.LENGTH
    for token in library.generate(prompt[-1]):
        passes += 1
        first = clock() if passes == 1 else first
        if token in question.end_tokens:
            finish = Finish.STOP
            break
        tokens.append(token)
        if len(tokens) >= question.max_tokens:
            break
    return Reply(tuple(tokens), read - started, first - started, clock() - read, passes, finish)


def serve(path: Path, n_ctx: int, questions: TextIO, replies: TextIO) -> None:
    """Say that the model is open, then one reply for each question. Raises what the library raises."""
    from edgespec.backend.llama.library import LibraryDefaults

    with closing(LibraryDefaults(path, n_ctx)) as library:
        _say(replies, Reply())
        for line in questions:
            _say(replies, answer(library, Question.from_line(line), time.perf_counter))


def _say(replies: TextIO, reply: Reply) -> None:
    replies.write(reply.to_line())
    replies.flush()


def main() -> int:
    die_quietly()
    # Ctrl-C reaches the whole group of processes; the parent, which hears it too, must not find a dead child first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        serve(Path(sys.argv[1]), LlamaSettings.from_json(sys.argv[2]).n_ctx, sys.stdin, sys.stdout)
    except EdgeSpecError as error:
        _say(sys.stdout, Reply(refused=f"{error.what}: {error.why}"))
        return REFUSED
    except Exception as error:  # the library raises what it likes; the parent says it in one sentence
        traceback.print_exc()
        _say(sys.stdout, Reply(refused=repr(error)))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
