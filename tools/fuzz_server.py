"""Asks the server random requests with drafting and without, and shows that nothing of an answer changes.

    python tools/fuzz_server.py --n 200 --threads 1 --json fuzz.json

Every request goes three times over a socket to a server in this process: in exact mode without drafts, in exact mode
with them, and in fast mode with them. The exact answers must be equal in text, token ids, log probabilities, finish
reason and usage; of each answer text, ids, log probabilities and counts must agree with each other. Drafts are made
wherever there is a guess, also where it would not pay. Exit code 1 says that something was found; the same seed asks
the same again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import httpx

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.engine import EngineOptions, Extras
from edgespec.errors import EngineFailure
from edgespec.events import Completion, Finish
from edgespec.records import write_atomically
from edgespec.spec.policy import FixedPolicy
from tools.asking import reported
from tools.fuzz_answers import Answered, contradictions, differences, streamed, whole
from tools.fuzz_requests import CHAT, Case, Maker
from tools.soak_server import Served, WatchedEngine, open_watched, served


@dataclass(frozen=True, slots=True)
class Got:
    """An answer as the client has it, and as the engine ended it; None where it was refused before."""

    answered: Answered
    completion: Completion | None

    @property
    def ids(self) -> tuple[int, ...]:
        return self.completion.token_ids if self.completion else ()

    @property
    def n_drafted(self) -> int:
        return self.completion.timings.draft_n if self.completion else 0

    @property
    def n_accepted(self) -> int:
        return self.completion.timings.draft_n_accepted if self.completion else 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request. found: what is wrong with its answers, in sentences. refused: the server's message, "" for none."""

    number: int
    draft: str
    n_tokens: int
    n_drafted: int
    n_accepted: int
    scored: bool
    refused: str
    found: tuple[str, ...]


class Fuzzer:
    """Asks one server; not to be shared among threads."""

    def __init__(self, running: Served, client: httpx.Client) -> None:
        self._engine = running.engine
        self._client = client

    def serves_logprobs(self) -> bool:
        messages = [{"role": "user", "content": "the river"}]
        response = self._client.post(CHAT, json={"messages": messages, "max_tokens": 1, "logprobs": True})
        self._engine.take_asked()
        return response.status_code == 200

    def outcome(self, case: Case) -> Outcome:
        """Raises httpx's errors when the server does not answer at all, and what the engine failed with."""
        plain = self.ask(case, "off", exact=True)
        drafted = self.ask(case, case.draft, exact=True)
        fast = self.ask(case, case.draft, exact=False)
        found = [f"exact: {line}" for line in differences(plain.answered, drafted.answered)]
        for name, got in (("plain", plain), ("drafted", drafted), ("fast", fast)):
            found += [f"{name}: {line}" for line in self._contradictions(case, got)]
        return Outcome(
            case.number,
            case.draft,
            len(plain.ids),
            drafted.n_drafted + fast.n_drafted,
            drafted.n_accepted + fast.n_accepted,
            plain.answered.scored,
            plain.answered.refused,
            tuple(found),
        )

    def ask(self, case: Case, draft: str, exact: bool) -> Got:
        body = case.asked(draft, exact)
        if case.stream:
            with self._client.stream("POST", case.path, json=body) as response:
                lines = list(response.iter_lines())
                answered = streamed(lines) if response.status_code == 200 else whole("\n".join(lines).encode())
        else:
            answered = whole(self._client.post(case.path, json=body).content)
        asked = self._engine.take_asked()
        return Got(answered, asked[-1].answer.completion() if asked else None)

    def _contradictions(self, case: Case, got: Got) -> list[str]:
        if got.completion is None:
            return []
        # A chat's template has stop strings of its own.
        cut = got.completion.finish is Finish.STOP and (case.is_chat or "stop" in case.body)
        return contradictions(got.answered, got.ids, self._engine.vocab.piece, cut)


def summary(outcomes: Iterable[Outcome]) -> dict[str, int]:
    listed = list(outcomes)
    return {
        "requests": len(listed),
        "refused": sum(1 for one in listed if one.refused),
        "scored": sum(1 for one in listed if one.scored),
        "tokens": sum(one.n_tokens for one in listed),
        "drafted": sum(one.n_drafted for one in listed),
        "accepted": sum(one.n_accepted for one in listed),
        "failed": sum(1 for one in listed if one.found),
    }


def fuzz(engine: WatchedEngine, n: int, seed: int, most_tokens: int = 48) -> list[Outcome]:
    """Progress on stderr. Raises EngineFailure when the server does not begin, and what asking raises."""
    with served(engine) as running, running.client() as client:
        fuzzer = Fuzzer(running, client)
        maker = Maker(seed, engine.vocab.n_vocab, fuzzer.serves_logprobs(), most_tokens)
        with click.progressbar(range(n), label=f"{n} requests", file=sys.stderr) as numbers:
            return [fuzzer.outcome(maker.case(number)) for number in numbers]


@click.command()
@click.option("--n", default=200, show_default=True, type=click.IntRange(1), help="requests")
@click.option("--seed", default=1, show_default=True, type=int)
@click.option("--model", help="as for 'edgespec chat'; the starter model when not given")
@click.option("--threads", type=click.IntRange(1), help="of the engine; all cores when not given")
@click.option("--max-tokens", default=48, show_default=True, type=click.IntRange(1), help="of an answer at most")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="write the results here")
def main(n: int, seed: int, model: str | None, threads: int | None, max_tokens: int, json_path: Path | None) -> None:
    """Compare the server's answers with drafting and without; exit code 1 if one differs or contradicts itself."""
    with reported():
        # Drafting wherever there is a guess: there is the more to find.
        always = Extras(policy=FixedPolicy())
        with closing(open_watched(model, EngineOptions(threads=threads), always)) as engine:
            try:
                outcomes = fuzz(engine, n, seed, max_tokens)
            except httpx.HTTPError as error:
                raise EngineFailure("the server", f"it did not answer: {error!r}", "report this") from error
    counts = summary(outcomes)
    click.echo(", ".join(f"{name} {count}" for name, count in counts.items()))
    for one in outcomes:
        for line in one.found:
            click.echo(f"request {one.number} (seed {seed}, draft {one.draft}): {line}")
    if json_path is not None:
        results = {"seed": seed, "counts": counts, "outcomes": [asdict(one) for one in outcomes]}
        write_atomically(json_path, json.dumps(results, indent=1) + "\n")
    sys.exit(1 if counts["failed"] or counts["refused"] else 0)


if __name__ == "__main__":
    main()
