"""Measures what a round costs beside the model: time from one round's end to the next, less the time in llama_decode.

    python tools/overhead.py --threads 1

The engine's own worker runs real requests on the real target: law, verifier, guarded drafters, lookup's index, text
stream and the queue to a reader. Only the guesses are staged: a tree or chain of fixed shape in which the true
continuation lies on the principal branch, on a side branch, in part, or nowhere, in turn.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import llama_cpp
import numpy as np
from rich.console import Console

from edgespec.cli.downloads import ensure_model
from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.engine import Answer, CancelToken, EngineOptions, GenerateOptions
from edgespec.engine.job import Request
from edgespec.engine.opening import Opened, open_model
from edgespec.engine.worker import Worker
from edgespec.errors import BadInput
from edgespec.events import Notice, RoundReport
from edgespec.records import write_atomically
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Commit, Drafter, IntArray, Needs, Plan, Rows
from edgespec.spec.tree import EMPTY, DraftTree
from tools.asking import reported

# Rounds that are not counted: caches and rates settle, text pieces are looked up for the first time.
N_WARM_UP = 20
# A staged round emits fewer tokens than this on average, so an answer of as many for each round never ends too soon.
MOST_PER_ROUND = 4
SEED = 20250

GREEDY = SamplingSettings()
WARM = SamplingSettings(temperature=0.8, top_p=0.95, seed=SEED)


@dataclass(frozen=True, slots=True)
class Case:
    """parents: the shape of every draft. true_lines: paths of nodes that carry the true continuation, used in turn."""

    name: str
    sampling: SamplingSettings
    parents: tuple[int, ...] = ()
    true_lines: tuple[tuple[int, ...], ...] = ((),)


# Eight nodes, four leaves: a branch of four, one of two, and two forks on the first branch.
TREE = (-1, 0, 1, 2, -1, 4, 0, 1)
TREE_LINES = ((0, 1, 2, 3), (4, 5), (0, 6), (), (0, 1, 7), (4,), (0, 1))
CHAIN = tuple(range(-1, 7))
CHAIN_LINES = (tuple(range(8)), (0, 1), (), (0, 1))

CASES = (
    Case("plain, greedy", GREEDY),
    Case("plain, temperature 0.8, top-p 0.95", WARM),
    Case("chain of 8, greedy", GREEDY, CHAIN, CHAIN_LINES),
    Case("tree of 8 with 4 leaves, greedy", GREEDY, TREE, TREE_LINES),
    Case("tree of 8 with 4 leaves, temperature 0.8, top-p 0.95", WARM, TREE, TREE_LINES),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Overhead per round in milliseconds; tokens_per_pass shows how often the staged guesses were right."""

    case: str
    n_rounds: int
    q1_ms: float
    median_ms: float
    q3_ms: float
    decode_median_ms: float
    tokens_per_pass: float


class StagedDrafter:
    """Drafts of one shape; `truth` is what the answer will say, as far as it is known."""

    name = "staged"
    needs = Needs.TOKENS

    def __init__(self, case: Case, truth: Sequence[int], n_vocab: int) -> None:
        self._case = case
        self._truth = truth
        self._n_seen = 0
        self._n_rounds = 0
        n = len(case.parents)
        # The same for every draft: the stage itself should cost little. No child is likelier than its parent.
        self._parents = np.array(case.parents, np.int32)
        self._survival = np.array([0.9 ** (1 + node) for node in range(n)], np.float32)
        self._sources = np.zeros(n, np.uint8)
        self._wrong = [(7919 * node + 11) % n_vocab for node in range(n)]

    def begin(self, sequence: int, prompt: IntArray) -> None:
        """Nothing to read."""

    def propose(self, sequence: int, plan: Plan) -> DraftTree:  # noqa: ARG002
        if not self._case.parents:
            return EMPTY
        line = self._case.true_lines[self._n_rounds % len(self._case.true_lines)]
        self._n_rounds += 1
        tokens = list(self._wrong)
        for node, token in zip(line, self._truth[self._n_seen : self._n_seen + len(line)], strict=False):
            tokens[node] = token
        return DraftTree(np.array(tokens, np.int32), self._parents, self._survival, self._sources)

    def anticipate(self, sequence: int, tree: DraftTree) -> None:
        """Nothing to prepare."""

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:  # noqa: ARG002
        self._n_seen += len(commit.tokens)

    def end(self, sequence: int) -> None:
        """Nothing to forget."""


class DecodeClock:
    """Seconds spent in llama_decode, and in nothing else."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def installed(self) -> Iterator[None]:
        original = llama_cpp.llama_decode

        def timed(context: object, batch: object) -> int:
            started = time.perf_counter()
            code: int = original(context, batch)
            self.seconds += time.perf_counter() - started
            return code

        llama_cpp.llama_decode = timed
        try:
            yield
        finally:
            llama_cpp.llama_decode = original


class Stopwatch:
    """Takes the end of every round, in the worker's thread, until there are enough."""

    def __init__(
        self, n_rounds: int, clock: DecodeClock, cancel: CancelToken, profile: cProfile.Profile | None
    ) -> None:
        self.overheads: list[float] = []
        self.decodes: list[float] = []
        self.tokens: list[int] = []
        self._n_rounds = n_rounds
        self._clock = clock
        self._cancel = cancel
        self._profile = profile
        self._n_seen = 0
        self._ended = 0.0
        self._decoded = 0.0

    def on_round(self, report: RoundReport) -> None:
        now, decoded = time.perf_counter(), self._clock.seconds
        self._n_seen += 1
        if self._n_seen > N_WARM_UP:
            self.decodes.append(decoded - self._decoded)
            self.overheads.append(now - self._ended - self.decodes[-1])
            self.tokens.append(len(report.tokens))
        elif self._n_seen == N_WARM_UP and self._profile is not None:
            self._profile.enable()
        if len(self.overheads) == self._n_rounds:
            if self._profile is not None:
                self._profile.disable()
            self._cancel.cancel()
        self._ended, self._decoded = time.perf_counter(), self._clock.seconds


class Bench:
    """One model under the engine's worker, asked to go on with a text of fixed length."""

    def __init__(self, opened: Opened, prompt: list[int], n_rounds: int) -> None:
        self._opened = opened
        self._prompt = prompt
        self._n_rounds = n_rounds
        self._clock = DecodeClock()
        self._staged: tuple[Case, Sequence[int]] = (CASES[0], ())
        policy = FixedPolicy(max_nodes=8, max_leaves=4)
        # An answer that ended by itself would leave a case without its rounds.
        opened.vocab.end_tokens = frozenset()
        self._worker = Worker(opened.target, opened.vocab, policy, self._drafters, opened.width_class)
        self._truths: dict[SamplingSettings, tuple[int, ...]] = {}

    def close(self) -> None:
        self._worker.close()

    def truth(self, sampling: SamplingSettings) -> tuple[int, ...]:
        """What the model says by itself, in exact mode, so that it is what wide passes say too."""
        if sampling not in self._truths:
            self._staged = (Case("truth", sampling), ())
            self._truths[sampling] = self._answer(sampling, CancelToken(), exact=True).completion().token_ids
        return self._truths[sampling]

    def measure(self, case: Case, profile: cProfile.Profile | None = None) -> Figures:
        self._staged = (case, self.truth(case.sampling) if case.parents else ())
        cancel = CancelToken()
        watch = Stopwatch(self._n_rounds, self._clock, cancel, profile)
        with self._clock.installed():
            for _ in self._answer(case.sampling, cancel, on_round=watch.on_round):
                pass
        if len(watch.overheads) < self._n_rounds:
            why = f"the answer ended after {len(watch.overheads)} rounds"
            raise BadInput("cannot measure", why, "give another --text, or fewer --n-rounds")
        return figures(case.name, watch)

    def _answer(
        self,
        sampling: SamplingSettings,
        cancel: CancelToken,
        exact: bool = False,
        on_round: Callable[[RoundReport], None] | None = None,
    ) -> Answer:
        room = self._opened.target.capabilities.n_ctx - len(self._prompt)
        n_tokens = min(room, MOST_PER_ROUND * (self._n_rounds + N_WARM_UP))
        options = GenerateOptions(sampling=sampling, max_tokens=n_tokens, exact=exact)
        answer = Answer(cancel)
        self._worker.submit(Request(0, False, self._prompt, options, answer, on_round=on_round))
        return answer

    def _drafters(self, _request: Request, notify: Callable[[Notice], None]) -> tuple[Drafter, ...]:
        """The staged one; and lookup, which observes everything but hardly ever finds a match this long."""
        n_vocab = self._opened.vocab.n_vocab
        drafters = (StagedDrafter(*self._staged, n_vocab), LookupDrafter(min_match=1 << 20))
        return tuple(GuardedDrafter(one, n_vocab, time.perf_counter, notify) for one in drafters)


def figures(case: str, watch: Stopwatch) -> Figures:
    q1, median, q3 = statistics.quantiles(watch.overheads, n=4)
    decode = statistics.median(watch.decodes)
    per_pass = statistics.fmean(watch.tokens)
    return Figures(case, len(watch.overheads), q1 * 1e3, median * 1e3, q3 * 1e3, decode * 1e3, per_pass)


def table(found: Sequence[Figures]) -> str:
    lines = [f"{'overhead per round, ms':<54}{'q1':>8}{'median':>8}{'q3':>8}{'decode':>9}{'tokens/pass':>13}"]
    for one in found:
        columns = f"{one.q1_ms:>8.3f}{one.median_ms:>8.3f}{one.q3_ms:>8.3f}{one.decode_median_ms:>9.2f}"
        lines.append(f"{one.case:<54}{columns}{one.tokens_per_pass:>13.2f}")
    return "\n".join(lines)


def _costliest(profile: cProfile.Profile) -> None:
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(30)


@click.command()
@click.option("--model", help="as for 'edgespec chat'; the starter model when not given")
@click.option("--text", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="what is gone on with")
@click.option("--context", default=2000, show_default=True, type=click.IntRange(1), help="tokens before the answer")
@click.option("--n-rounds", default=200, show_default=True, type=click.IntRange(2), help="counted for each case")
@click.option("--threads", type=click.IntRange(1), help="of the engine; all cores when not given")
@click.option("--only", help="cases whose name contains this")
@click.option("--profile", "profiled", is_flag=True, help="also list the costliest functions on stderr")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="write the results here")
def main(
    model: str | None,
    text: Path | None,
    context: int,
    n_rounds: int,
    threads: int | None,
    only: str | None,
    profiled: bool,
    json_path: Path | None,
) -> None:
    """Measure the overhead of a round. Wanted: at most 0.3 ms for greedy trees and 1 ms for sampled ones (medians)."""
    with reported():
        path = ensure_model(model, offline=False, console=Console(stderr=True)).path
        opened = open_model(path, EngineOptions(threads=threads), lambda notice: click.echo(notice.message, err=True))
        bench = Bench(opened, _prompt(opened, text, context), n_rounds)
        try:
            found = _measure(bench, [case for case in CASES if (only or "") in case.name], profiled)
        finally:
            bench.close()
    click.echo(table(found))
    if json_path is not None:
        write_atomically(json_path, json.dumps([asdict(one) for one in found], indent=1) + "\n")


def _measure(bench: Bench, cases: Sequence[Case], profiled: bool) -> list[Figures]:
    found: list[Figures] = []
    with click.progressbar(cases, label="cases", file=sys.stderr) as left:
        for case in left:
            found.append(bench.measure(case))
            if profiled:
                profile = cProfile.Profile()
                bench.measure(case, profile)
                click.echo(f"\n{case.name}", err=True)
                _costliest(profile)
    return found


def _prompt(opened: Opened, text: Path | None, n_tokens: int) -> list[int]:
    """The first tokens of the text, over again if it is short. The default text is the licence in the repository."""
    path = text or Path(__file__).resolve().parents[1] / "LICENSE"
    tokens = opened.vocab.tokenize(path.read_text(encoding="utf-8"))
    return (tokens * (n_tokens // max(1, len(tokens)) + 1))[:n_tokens]


if __name__ == "__main__":
    main()
