"""Measures what a round costs beside the model: time from one round's end to the next, less the time in llama_decode.

    python tools/overhead.py --threads 1

The engine's own worker runs real requests on the real target: law, verifier, guarded drafters, lookup's index, text
stream and the queue to a reader. Only the guesses are staged: a tree or chain of fixed shape in which the true
continuation lies on the principal branch, on a side branch, in part, or nowhere, in turn. Rounds are taken from many
short answers to one text, because rounding makes a long answer leave what was found to be true.
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import llama_cpp
from rich.console import Console

from edgespec.cli.downloads import ensure_model
from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.engine import Answer, CancelToken, EngineOptions, GenerateOptions
from edgespec.engine.job import Request
from edgespec.engine.opening import Opened, open_model
from edgespec.engine.policies import Policies
from edgespec.engine.worker import Worker
from edgespec.events import Notice, RoundReport
from edgespec.records import write_atomically
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Drafter
from tools.asking import reported
from tools.staged import CASES, SEED, Case, StagedDrafter

# Of each answer so many rounds are counted, after some that are not: a request's beginning is not a round's cost.
N_WARM_UP = 3
N_COUNTED = 12
# A staged round emits fewer tokens than this on average.
MOST_PER_ROUND = 4


@dataclass(frozen=True, slots=True)
class Figures:
    """Overhead per round in milliseconds of wall time, and its median in processor time of the worker's thread, which
    other programs on the machine disturb less. tokens_per_pass shows how often the staged guesses were right.
    """

    case: str
    n_rounds: int
    q1_ms: float
    median_ms: float
    q3_ms: float
    cpu_median_ms: float
    decode_median_ms: float
    tokens_per_pass: float


class DecodeClock:
    """Seconds spent in llama_decode, and in nothing else: of wall time, and of the thread's processor time.

    What it does itself counts as overhead, so it does little: the first steps after a pass find no cache warm.
    """

    def __init__(self) -> None:
        self.wall = 0.0
        self.cpu = 0.0

    @contextmanager
    def installed(self) -> Iterator[None]:
        original = llama_cpp.llama_decode
        wall_clock, cpu_clock = time.perf_counter, time.thread_time

        def timed(context: object, batch: object) -> int:
            wall, cpu = wall_clock(), cpu_clock()
            code: int = original(context, batch)
            self.cpu += cpu_clock() - cpu
            self.wall += wall_clock() - wall
            return code

        llama_cpp.llama_decode = timed
        try:
            yield
        finally:
            llama_cpp.llama_decode = original


class Stopwatch:
    """Takes the end of every round, in the worker's thread. It cancels an answer that has given enough.

    Seconds for each counted round: what it took beside llama_decode, the same in processor time, and llama_decode.
    """

    def __init__(self, clock: DecodeClock, profile: cProfile.Profile | None = None) -> None:
        self.overheads: list[float] = []
        self.cpu_overheads: list[float] = []
        self.decodes: list[float] = []
        self.tokens: list[int] = []
        self._clock = clock
        self._profile = profile
        self._cancel = CancelToken()
        self._n_seen = 0
        self._last = (0.0, 0.0, 0.0, 0.0)

    def next_answer(self) -> CancelToken:
        self._cancel = CancelToken()
        self._n_seen = 0
        return self._cancel

    def on_round(self, report: RoundReport) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        self._n_seen += 1
        if N_WARM_UP < self._n_seen <= N_WARM_UP + N_COUNTED:
            last_wall, last_cpu, last_decode_wall, last_decode_cpu = self._last
            self.decodes.append(self._clock.wall - last_decode_wall)
            self.overheads.append(wall - last_wall - self.decodes[-1])
            self.cpu_overheads.append(cpu - last_cpu - (self._clock.cpu - last_decode_cpu))
            self.tokens.append(len(report.tokens))
        self._control()
        self._last = (time.perf_counter(), time.thread_time(), self._clock.wall, self._clock.cpu)

    def _control(self) -> None:
        if self._n_seen == N_WARM_UP and self._profile is not None:
            self._profile.enable()
        if self._n_seen == N_WARM_UP + N_COUNTED:
            if self._profile is not None:
                self._profile.disable()
            self._cancel.cancel()


class Bench:
    """One model under the engine's worker, asked to go on with a text of fixed length. The text is read once."""

    def __init__(self, opened: Opened, prompt: list[int], n_rounds: int) -> None:
        self._opened = opened
        self._prompt = prompt
        self._n_answers = -(-n_rounds // N_COUNTED)
        self._clock = DecodeClock()
        self._staged: tuple[Case, Sequence[int]] = (CASES[0], ())
        policies = Policies(own=FixedPolicy(max_nodes=8, max_leaves=4))
        # An answer that ended by itself would leave a case without its rounds.
        self._worker = Worker(opened.target, opened.vocab, policies, self._drafters, opened.width_class, frozenset())
        self._truths: dict[SamplingSettings, tuple[int, ...]] = {}

    def close(self) -> None:
        self._worker.close()

    def measure(self, case: Case, profile: cProfile.Profile | None = None) -> Figures:
        watch = Stopwatch(self._clock, profile)
        for answer in range(self._n_answers):
            sampling = replace(case.sampling, seed=SEED + answer) if case.sampling.temperature else case.sampling
            self._staged = (case, self._truth(sampling) if case.parents else ())
            with self._clock.installed():
                for _ in self._answer(sampling, watch.next_answer(), on_round=watch.on_round):
                    pass
        return figures(case.name, watch)

    def _truth(self, sampling: SamplingSettings) -> tuple[int, ...]:
        """What the model says by itself, in exact mode, so that it is what wide passes say too."""
        if sampling not in self._truths:
            self._staged = (Case("truth", sampling), ())
            self._truths[sampling] = self._answer(sampling, CancelToken(), exact=True).completion().token_ids
        return self._truths[sampling]

    def _answer(
        self,
        sampling: SamplingSettings,
        cancel: CancelToken,
        exact: bool = False,
        on_round: Callable[[RoundReport], None] | None = None,
    ) -> Answer:
        """A drafted answer is cancelled long before its limit, which would cut its drafts short."""
        n_tokens = MOST_PER_ROUND * (N_WARM_UP + N_COUNTED)
        options = GenerateOptions(sampling=sampling, max_tokens=n_tokens if exact else 8 * n_tokens, exact=exact)
        answer = Answer(cancel)
        self._worker.submit(Request(0, True, self._prompt, options, answer, on_round=on_round))
        return answer

    def _drafters(self, _request: Request, notify: Callable[[Notice], None]) -> tuple[Drafter, ...]:
        """The staged one; and lookup, which observes everything but hardly ever finds a match this long."""
        if not self._staged[0].asked:
            return ()
        n_vocab = self._opened.vocab.n_vocab
        drafters = (StagedDrafter(*self._staged, n_vocab), LookupDrafter(min_match=1 << 20))
        return tuple(GuardedDrafter(one, n_vocab, time.perf_counter, notify) for one in drafters)


def figures(case: str, watch: Stopwatch) -> Figures:
    q1, median, q3 = statistics.quantiles((seconds * 1e3 for seconds in watch.overheads), n=4)
    cpu = statistics.median(watch.cpu_overheads) * 1e3
    decode = statistics.median(watch.decodes) * 1e3
    return Figures(case, len(watch.overheads), q1, median, q3, cpu, decode, statistics.fmean(watch.tokens))


def table(found: Sequence[Figures]) -> str:
    names = ("q1", "median", "q3", "cpu", "decode", "tokens/pass")
    lines = [f"{'overhead per round, ms':<54}" + "".join(f"{name:>12}" for name in names)]
    for one in found:
        times = (one.q1_ms, one.median_ms, one.q3_ms, one.cpu_median_ms)
        cells = "".join(f"{number:>12.3f}" for number in times)
        lines.append(f"{one.case:<54}{cells}{one.decode_median_ms:>12.2f}{one.tokens_per_pass:>12.2f}")
    return "\n".join(lines)


def _costliest(profile: cProfile.Profile) -> None:
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(30)


@click.command()
@click.option("--model", help="as for 'edgespec chat'; the starter model when not given")
@click.option("--text", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="what is gone on with")
@click.option("--context", default=2000, show_default=True, type=click.IntRange(1), help="tokens before the answer")
@click.option("--n-rounds", default=240, show_default=True, type=click.IntRange(1), help="counted for each case")
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
