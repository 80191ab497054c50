"""Runs the ways of `tools.two_arms` over prompts, one draft after the other, and predicts what each way gives.

Contract: the models are open and belong to the caller. Knows no command line.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence as Seq
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from rich.progress import Progress

from edgespec.backend import machine
from edgespec.backend.cores import affinity
from edgespec.engine.opening import Opened
from edgespec.engine.pair.facts import Host, believed, everyday_texts
from edgespec.engine.pair.second import Second
from edgespec.engine.pair.weighing import MAX_DRAFT
from edgespec.errors import BadInput
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.latency import Beside, Candidate, Draft, Estimate, Placement, estimate
from edgespec.spec.placement import choose
from edgespec.tune.agreement import PairAcceptance, Text, measure_acceptance
from edgespec.tune.pair import StepTimes, time_beside, time_steps
from tools.two_arms import Answered, Arms, Cores, Way, measure_tables, on_all_cores, pin, pinned

# What a round takes beside its pass and its draft, on a machine like the one this was written on.
HANDOVER_SECONDS = 0.0006


@dataclass(frozen=True, slots=True)
class Timed:
    """What was timed before any answer. tables: one thread, all. steps: one thread, all. kappa: target, draft."""

    tables: tuple[CostTable, CostTable]
    steps: tuple[StepTimes, StepTimes]
    kappa: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Asked:
    """Token ids of the prompts that count and of those that do not; tokens of an answer; how often all are asked. size:
    tokens to draft in every round; None leaves it to the policy.
    """

    prompts: tuple[tuple[int, ...], ...]
    warm_up: tuple[tuple[int, ...], ...]
    n_tokens: int
    repeats: int
    ends: frozenset[int]
    size: int | None = None

    @property
    def context(self) -> int:
        """Tokens of text in the middle of a usual answer."""
        return int(median(len(prompt) for prompt in self.prompts)) + self.n_tokens // 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """speeds, predicted, foreseen: tokens per second by way. acceptance: of the draft on this run's plain answers.
    n_warm_up: answers of every way that do not count. reading_seconds: of a prompt by the draft in turn, median.
    """

    speeds: dict[Way, float]
    predicted: dict[Way, float]
    foreseen: dict[Way, float]
    acceptance: PairAcceptance
    n_warm_up: int
    accepted: dict[Way, float]
    tokens_per_pass: dict[Way, float]
    identical: dict[Way, int]
    n_answers: int
    kappa: tuple[float, float]
    hit_rate: float
    chosen: Placement
    why: tuple[str, ...]
    machine: str
    draft: str
    reading_seconds: float


def cores_of(n_threads: int) -> Cores:
    """The draft gets the last core, the target the first one or all."""
    usable = sorted(affinity())[: max(2, n_threads)]
    if len(usable) < 2:
        raise BadInput("this machine's cores", "there is one, and two devices need two", "run it on another machine")
    return Cores(frozenset(usable[:1]), frozenset(usable[-1:]), frozenset(usable))


def timed(
    opened: Opened, second: Second, cores: Cores, n_threads: int, context: int, tables: tuple[CostTable, CostTable]
) -> Timed:
    target = opened.target
    steps: list[StepTimes] = []
    for count, where in ((1, cores.draft), (n_threads, cores.all_)):
        pin(where)
        with closing(second.make(count)) as step:
            steps.append(time_steps(step, count, time.perf_counter, (context // 2, context)))
    pin(cores.target)
    n_left = max(1, n_threads - 1)
    target.set_threads(n_left)
    kappa = time_beside(target, pinned(second.make, cores.draft), time.perf_counter, width=8)
    target.release(0)
    return Timed(tables, (steps[0], steps[1]), kappa)


def accepted_texts(second: Second, n_threads: int, texts: Seq[Text]) -> PairAcceptance:
    """How often the draft is right on these."""
    with closing(second.make(n_threads)) as step:
        return measure_acceptance(step, texts)


def predictions(
    measured: Timed,
    acceptance: PairAcceptance,
    free: Seq[Answered],
    context: int,
    n_threads: int,
    size: int | None = None,
) -> dict[Way, Estimate]:
    """free: what draft-free decoding answered. size: of every draft, each token as often right as was measured; None
    for what a policy dares, and one that expects a loss from every draft makes none.
    """
    passes = tuple(tuple(table.steps(context)) for table in measured.tables)
    one, many = passes if size is None else (_of_size(own, size) for own in passes)
    beside = Beside(*measured.kappa)
    left = one if n_threads == 2 else many
    survivals = believed(acceptance) if size is None else acceptance.survivals

    def drafted(steps: StepTimes) -> Draft:
        return Draft(steps.step(context), survivals, acceptance.ranks, steps.call_seconds, HANDOVER_SECONDS)

    offered = {
        Way.PLAIN_ONE: Candidate(Placement.PLAIN, one),
        Way.PLAIN: Candidate(Placement.PLAIN, many),
        Way.SERIAL_ONE: Candidate(Placement.SERIAL, one, drafted(measured.steps[0])),
        Way.SERIAL: Candidate(Placement.SERIAL, many, drafted(measured.steps[1])),
        Way.OVERLAPPED: Candidate(Placement.OVERLAPPED, left, drafted(measured.steps[0]), beside),
    }
    found = {way: estimate(candidate, max_nodes=MAX_DRAFT) for way, candidate in offered.items()}
    for way, candidate in offered.items():
        undrafted = estimate(Candidate(Placement.PLAIN, candidate.passes))
        if size is None and found[way].tokens_per_second < undrafted.tokens_per_second:
            found[way] = replace(undrafted, candidate=candidate)
    found[Way.DRAFT_FREE] = _free_estimate(passes[1], free)
    return found


def _of_size(passes: Seq[float], n_drafted: int) -> tuple[float, ...]:
    """Nothing or so many tokens: no other pass is possible."""
    return tuple(seconds if n in (1, n_drafted + 1) else math.inf for n, seconds in enumerate(passes))


def _free_estimate(passes: tuple[float, ...], answers: Seq[Answered]) -> Estimate:
    """A look-up has something to say in some rounds only: the widths it really took, priced by the table."""
    rounds = [report for one in answers for report in one.rounds]
    seconds = sum(passes[min(report.n_rows, len(passes) - 1)] for report in rounds)
    tokens = sum(len(report.tokens) for report in rounds)
    free = Candidate(Placement.FREE, passes, Draft(0.0, ()))
    return Estimate(free, tokens / seconds, round_seconds=seconds / len(rounds))


def measure(host: Host, opened: Opened, seconds: Seq[Second], asked: Asked, progress: Progress) -> list[Outcome]:
    """One outcome for each of the drafts, measured one after the other."""
    n_threads = max(2, opened.settings.n_threads)
    cores = cores_of(n_threads)
    with on_all_cores(cores):
        task = progress.add_task("timing passes", total=None)
        context = asked.context
        tables = measure_tables(opened.target, n_threads, cores, (context // 2, context), 3)
        with closing(opened.target.sibling(min(2048, opened.settings.n_ctx))) as bench:
            pin(cores.all_)
            usual = list(everyday_texts(host, bench))
        progress.remove_task(task)
        return [_measured(opened, second, cores, n_threads, tables, usual, asked, progress) for second in seconds]


def _measured(
    opened: Opened,
    second: Second,
    cores: Cores,
    n_threads: int,
    tables: tuple[CostTable, CostTable],
    usual: Seq[Text],
    asked: Asked,
    progress: Progress,
) -> Outcome:
    task = progress.add_task(f"{second.name}: timing steps", total=None)
    measured = timed(opened, second, cores, n_threads, asked.context, tables)
    pin(cores.all_)
    seen = accepted_texts(second, n_threads, usual)
    one, many = (_costs(steps, asked.context) for steps in measured.steps)
    known = partial(seen.experience, (second.name,))
    arms = Arms(opened.target, second.make, cores, n_threads, tables, (one, many), second.name, known, asked.size)
    n_answers = (len(asked.warm_up) + len(asked.prompts) * asked.repeats) * len(arms.arms)
    progress.update(task, total=n_answers, description=f"{second.name}: answers")
    with closing(arms):
        arms.warm_up(asked.warm_up, asked.n_tokens, asked.ends, lambda: progress.advance(task))
        for turn, prompt in enumerate(list(asked.prompts) * asked.repeats):
            for arm in arms.arms if turn % 2 == 0 else reversed(arms.arms):
                arms.answer(arm, prompt, asked.n_tokens, asked.ends)
                progress.advance(task)
        pin(cores.all_)
        plain = next(arm for arm in arms.arms if arm.way is Way.PLAIN)
        said = [Text(prompt, answer.tokens) for prompt, answer in zip(asked.prompts, plain.answers, strict=False)]
        return outcome(measured, arms, asked, n_threads, seen, accepted_texts(second, n_threads, said), second.name)


def _costs(steps: StepTimes, context: int) -> DraftCosts:
    step = steps.step(context)
    return DraftCosts([(n, n * step) for n in (1, 4, MAX_DRAFT)], steps.read_seconds)


def outcome(
    measured: Timed,
    arms: Arms,
    asked: Asked,
    n_threads: int,
    usual: PairAcceptance,
    acceptance: PairAcceptance,
    draft: str,
) -> Outcome:
    """usual: of everyday prompts; acceptance: of this run's."""
    by_way = {arm.way: arm for arm in arms.arms}
    free = by_way[Way.DRAFT_FREE].answers
    found, foreseen = (
        predictions(measured, one, free, asked.context, n_threads, asked.size) for one in (acceptance, usual)
    )
    choice = choose([foreseen[way].candidate for way in (Way.PLAIN, Way.SERIAL, Way.OVERLAPPED)], max_nodes=MAX_DRAFT)
    plain = [one.tokens for one in by_way[Way.PLAIN].answers]
    return Outcome(
        speeds={way: _speed(arm.answers) for way, arm in by_way.items()},
        predicted={way: one.tokens_per_second for way, one in found.items()},
        foreseen={way: one.tokens_per_second for way, one in foreseen.items()},
        acceptance=acceptance,
        n_warm_up=len(asked.warm_up),
        accepted={way: _accepted(arm.answers) for way, arm in by_way.items()},
        tokens_per_pass={way: _per_pass(arm.answers) for way, arm in by_way.items()},
        identical={
            way: sum(one.tokens == own for one, own in zip(arm.answers, plain, strict=True))
            for way, arm in by_way.items()
        },
        n_answers=len(plain),
        kappa=measured.kappa,
        hit_rate=arms.hit_rate,
        chosen=choice.best.placement,
        why=tuple(loser.reason for loser in choice.losers),
        machine=machine.describe(),
        draft=draft,
        reading_seconds=median(one.reading_seconds for one in by_way[Way.SERIAL].answers),
    )


def _speed(answers: Seq[Answered]) -> float:
    return sum(len(one.tokens) for one in answers) / sum(one.seconds for one in answers)


def _accepted(answers: Seq[Answered]) -> float:
    drafted = sum(report.n_drafted for one in answers for report in one.rounds)
    return sum(report.n_accepted for one in answers for report in one.rounds) / drafted if drafted else 0.0


def _per_pass(answers: Seq[Answered]) -> float:
    return sum(len(one.tokens) for one in answers) / sum(len(one.rounds) for one in answers)
