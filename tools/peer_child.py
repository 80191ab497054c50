"""The process in which a Python library answers: llama-cpp-python as its users call it, or edgespec.

Started by `tools.peer_process`: the first line on stdin is a Setup, every further one a prompt; each is answered by one
line on stdout. It ends when stdin ends. An error ends it too, with a traceback on stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.engine import DraftChoice, Engine, EngineOptions, GenerateOptions
from edgespec.events import Finish, RoundReport
from tools.peer import Answer, without_end

LIBRARY = "llama"
EDGESPEC = "edgespec"
# llama-cpp-python's own; its prompt lookup fails on prompts that are longer.
DEFAULT_BATCH = 512

Ask = Callable[[list[int], int], Answer]


@dataclass(frozen=True, slots=True)
class Setup:
    """n_lookup: tokens that the library's prompt lookup guesses, 0 without it. draft: edgespec's. threads None: the
    library's own default, or what edgespec chooses.
    """

    library: str
    model: str
    n_ctx: int
    end_tokens: tuple[int, ...]
    threads: int | None = None
    n_lookup: int = 0
    draft: DraftChoice = DraftChoice.OFF

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "draft": self.draft.value})

    @classmethod
    def from_json(cls, text: str) -> Setup:
        raw = json.loads(text)
        return cls(**{**raw, "end_tokens": tuple(raw["end_tokens"]), "draft": DraftChoice.parse(raw["draft"])})


@contextmanager
def library_asker(setup: Setup) -> Iterator[Ask]:
    """`Llama(path)` with nothing chosen but the context, whose default of 512 tokens is too short for the prompts."""
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    lookup = LlamaPromptLookupDecoding(num_pred_tokens=setup.n_lookup) if setup.n_lookup else None
    llama = Llama(
        setup.model,
        n_ctx=setup.n_ctx,
        n_batch=max(DEFAULT_BATCH, setup.n_ctx) if lookup else DEFAULT_BATCH,
        n_threads=setup.threads,
        n_threads_batch=setup.threads,
        draft_model=lookup,
        verbose=False,
    )
    ends = frozenset(setup.end_tokens)

    def ask(prompt: list[int], max_tokens: int) -> Answer:
        llama.reset()  # forget the last prompt
        started = time.perf_counter()
        tokens: list[int] = []
        first = started
        for token in llama.generate(prompt, temp=0.0):
            if not tokens:
                first = time.perf_counter()
            tokens.append(int(token))
            if len(tokens) == max_tokens or tokens[-1] in ends:
                break
        done = time.perf_counter()
        return Answer(*without_end(tokens, ends), len(prompt), 1, done - first, done - started)

    try:
        yield ask
    finally:
        llama.close()


@contextmanager
def edgespec_asker(setup: Setup) -> Iterator[Ask]:
    """The engine with what it chooses by itself."""
    with Engine.open(setup.model, EngineOptions(ctx_size=setup.n_ctx, threads=setup.threads)) as engine:

        def ask(prompt: list[int], max_tokens: int) -> Answer:
            firsts: list[tuple[float, int]] = []

            def on_round(report: RoundReport) -> None:
                if not firsts:
                    firsts.append((time.perf_counter(), len(report.tokens)))

            options = GenerateOptions(max_tokens=max_tokens, draft=setup.draft)
            started = time.perf_counter()
            with engine.submit(engine.new_sequence(), False, prompt, options, on_round=on_round) as answer:
                completion = answer.completion()
            done = time.perf_counter()
            first, n_first = firsts[0]
            n_read = completion.usage.prompt_tokens - completion.timings.cached_prompt_tokens
            ended = completion.finish is Finish.STOP
            return Answer(completion.token_ids, ended, n_read, n_first, done - first, done - started)

        yield ask


ASKERS = {LIBRARY: library_asker, EDGESPEC: edgespec_asker}


def main() -> None:
    # What a library prints must not get between the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        setup = Setup.from_json(sys.stdin.readline())
        with ASKERS[setup.library](setup) as ask:
            print("ready", file=out, flush=True)
            for line in sys.stdin:
                request = json.loads(line)
                print(ask(request["prompt"], request["max_tokens"]).to_json(), file=out, flush=True)


if __name__ == "__main__":
    main()
