"""Measures one target with one draft on cores of their own: plain, draft-free, in turn, side by side; predicts each.

    python tools/two_devices.py wide.gguf --draft smol.step --prompts prompts.jsonl

Every way answers every prompt, in turns whose order is reversed each time. What is predicted comes from passes and
steps timed at the start of the same run and from how often the draft was right in it, so it says whether the model of
the latencies holds, not whether acceptance can be foreseen. Decoding only: both have read the prompt before.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence as Seq
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.backend import machine
from edgespec.backend.cores import affinity
from edgespec.bench.prompts import load_prompts
from edgespec.engine.core import Engine, end_tokens, host_of
from edgespec.engine.opening import Opened, open_model
from edgespec.engine.options import EngineOptions
from edgespec.engine.pairing import find_second
from edgespec.engine.partner import RANKS
from edgespec.engine.second import Second
from edgespec.errors import BadInput
from edgespec.events import Notice
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.latency import Beside, Candidate, Draft, Estimate, Placement, estimate
from edgespec.spec.placement import choose
from edgespec.tune.pair import StepTimes, time_beside, time_steps
from tools.asking import load_questions, reported
from tools.two_arms import Answered, Arm, Arms, Cores, Way, measure_tables, on_all_cores, pin, pinned

MAX_DRAFT = 15
# What a round takes beside its pass and its draft, on a machine like the one this was written on.
HANDOVER_SECONDS = 0.0006


@dataclass(frozen=True, slots=True)
class Timed:
    """What was timed before any answer. tables: one thread, all. steps: one thread, all. kappa: target, draft."""

    tables: tuple[CostTable, CostTable]
    steps: tuple[StepTimes, StepTimes]
    kappa: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """speeds, predicted: tokens per second by way. reading_seconds: of a prompt by the draft in turn, median."""

    speeds: dict[Way, float]
    predicted: dict[Way, float]
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


def timed(opened: Opened, second: Second, cores: Cores, n_threads: int, context: int) -> Timed:
    target = opened.target
    tables = measure_tables(target, n_threads, cores, (context // 2, context), 3)
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


def survivals(answers: Seq[Answered]) -> tuple[float, ...]:
    """By depth: how often a drafted token was accepted, of the rounds in which one of that depth was drafted, times
    what the depth before it survives.
    """
    found: list[float] = []
    survival = 1.0
    rounds = [report for one in answers for report in one.rounds if report.n_drafted]
    for depth in range(1, MAX_DRAFT + 1):
        reached = [report for report in rounds if report.n_drafted >= depth and report.n_accepted >= depth - 1]
        if len(reached) < 8:
            break
        survival *= sum(report.n_accepted >= depth for report in reached) / len(reached)
        found.append(survival)
    return tuple(found) or (0.5,)


def predictions(measured: Timed, arms: dict[Way, Arm], context: int, n_threads: int) -> dict[Way, Estimate]:
    one, many = (tuple(table.steps(context)) for table in measured.tables)
    beside = Beside(*measured.kappa)
    left = one if n_threads == 2 else many

    def drafted(way: Way, steps: StepTimes) -> Draft:
        return Draft(steps.step(context), survivals(arms[way].answers), RANKS, handover_seconds=HANDOVER_SECONDS)

    free = Draft(0.0, survivals(arms[Way.DRAFT_FREE].answers), handover_seconds=HANDOVER_SECONDS)
    offered = {
        Way.PLAIN_ONE: Candidate(Placement.PLAIN, one),
        Way.PLAIN: Candidate(Placement.PLAIN, many),
        Way.SERIAL_ONE: Candidate(Placement.SERIAL, one, drafted(Way.SERIAL_ONE, measured.steps[0])),
        Way.SERIAL: Candidate(Placement.SERIAL, many, drafted(Way.SERIAL, measured.steps[1])),
        Way.OVERLAPPED: Candidate(Placement.OVERLAPPED, left, drafted(Way.OVERLAPPED, measured.steps[0]), beside),
    }
    found = {way: estimate(candidate, max_nodes=MAX_DRAFT) for way, candidate in offered.items()}
    found[Way.DRAFT_FREE] = _free_estimate(free, many, arms[Way.DRAFT_FREE].answers)
    return found


def _free_estimate(free: Draft, passes: tuple[float, ...], answers: Seq[Answered]) -> Estimate:
    """A look-up has something to say in some rounds only: the widths it really took, priced by the table."""
    rounds = [report for one in answers for report in one.rounds]
    seconds = sum(passes[min(report.n_rows, len(passes) - 1)] for report in rounds)
    tokens = sum(len(report.tokens) for report in rounds)
    return Estimate(Candidate(Placement.FREE, passes, free), tokens / seconds, round_seconds=seconds / len(rounds))


def measure(
    opened: Opened,
    second: Second,
    prompts: Seq[Seq[int]],
    n_tokens: int,
    repeats: int,
    ends: frozenset[int],
    progress: Progress,
) -> Outcome:
    n_threads = max(2, opened.settings.n_threads)
    cores = cores_of(n_threads)
    context = int(median(len(prompt) for prompt in prompts)) + n_tokens // 2
    with on_all_cores(cores):
        task = progress.add_task("timing passes and steps", total=None)
        measured = timed(opened, second, cores, n_threads, context)
        costs = tuple(_costs(steps, context) for steps in measured.steps)
        arms = Arms(opened.target, second.make, cores, n_threads, measured.tables, (costs[0], costs[1]), second.name)
        progress.update(task, total=len(prompts) * repeats * len(arms.arms), description="answers")
        with closing(arms):
            for turn, prompt in enumerate(list(prompts) * repeats):
                for arm in arms.arms if turn % 2 == 0 else reversed(arms.arms):
                    arms.answer(arm, prompt, n_tokens, ends)
                    progress.advance(task)
            return outcome(measured, arms, context, n_threads, second.name)


def _costs(steps: StepTimes, context: int) -> DraftCosts:
    step = steps.step(context)
    return DraftCosts([(n, n * step) for n in (1, 4, MAX_DRAFT)], steps.read_seconds)


def outcome(measured: Timed, arms: Arms, context: int, n_threads: int, draft: str) -> Outcome:
    by_way = {arm.way: arm for arm in arms.arms}
    found = predictions(measured, by_way, context, n_threads)
    choice = choose([found[way].candidate for way in (Way.PLAIN, Way.SERIAL, Way.OVERLAPPED)], max_nodes=MAX_DRAFT)
    plain = [one.tokens for one in by_way[Way.PLAIN].answers]
    counts = arms.pipeline.counts
    passes = counts.n_hits + counts.n_misses
    return Outcome(
        speeds={way: _speed(arm.answers) for way, arm in by_way.items()},
        predicted={way: one.tokens_per_second for way, one in found.items()},
        accepted={way: _accepted(arm.answers) for way, arm in by_way.items()},
        tokens_per_pass={way: _per_pass(arm.answers) for way, arm in by_way.items()},
        identical={
            way: sum(one.tokens == own for one, own in zip(arm.answers, plain, strict=True))
            for way, arm in by_way.items()
        },
        n_answers=len(plain),
        kappa=measured.kappa,
        hit_rate=counts.n_hits / passes if passes else 0.0,
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


def as_object(found: Outcome) -> dict[str, object]:
    """The keys are kept: programs read them."""
    return {
        **{way.value: speed for way, speed in found.speeds.items()},
        "predicted": {way.value: speed for way, speed in found.predicted.items()},
        "kappa": found.kappa[0],
        "kappa_draft": found.kappa[1],
        "hit_rate": found.hit_rate,
        "chosen": found.chosen.value,
        "why": found.why,
        "accepted": {way.value: share for way, share in found.accepted.items()},
        "tokens_per_pass": {way.value: n for way, n in found.tokens_per_pass.items()},
        "identical": {way.value: n for way, n in found.identical.items()},
        "n_answers": found.n_answers,
        "draft": found.draft,
        "machine": found.machine,
        "reading_seconds": found.reading_seconds,
    }


def show(found: Outcome, console: Console) -> None:
    table = Table(title=f"{found.draft} drafting, {found.n_answers} answers each, decoding only")
    for column in (
        "way",
        "tok/s",
        "x plain_one",
        "x plain",
        "predicted",
        "off by",
        "tok/pass",
        "accepted",
        "same text",
    ):
        table.add_column(column, justify="left" if column == "way" else "right")
    one, plain = found.speeds[Way.PLAIN_ONE], found.speeds[Way.PLAIN]
    for way, speed in found.speeds.items():
        predicted = found.predicted[way]
        table.add_row(
            way.value,
            f"{speed:.2f}",
            f"{speed / one:.2f}",
            f"{speed / plain:.2f}",
            f"{predicted:.2f}",
            f"{predicted / speed - 1:+.0%}",
            f"{found.tokens_per_pass[way]:.2f}",
            f"{found.accepted[way]:.0%}",
            f"{found.identical[way]}/{found.n_answers}",
        )
    console.print(table)
    kappa = f"kappa: target {found.kappa[0]:.1%}, draft {found.kappa[1]:.1%}"
    console.print(f"{kappa}; hit rate {found.hit_rate:.0%}; the draft reads a prompt in {found.reading_seconds:.2f} s")
    console.print(f"chosen: {found.chosen.value}")
    for reason in found.why:
        console.print(f"  {reason}")


@click.command()
@click.argument("target")
@click.option("--draft", required=True, help="a step model's folder, a GGUF, or a name")
@click.option("--prompts", required=True, type=click.Path(path_type=Path))
@click.option("--n-prompts", default=6, show_default=True, type=click.IntRange(1))
@click.option("--max-tokens", default=96, show_default=True, type=click.IntRange(16))
@click.option("--repeats", default=1, show_default=True, type=click.IntRange(1))
@click.option("--ctx-size", default=2048, show_default=True, type=click.IntRange(256))
@click.option("--gpu-layers", type=int, help="layers of the target on the GPU, -1 for all")
@click.option("--json", "as_json", is_flag=True)
def main(
    target: str,
    draft: str,
    prompts: Path,
    n_prompts: int,
    max_tokens: int,
    repeats: int,
    ctx_size: int,
    gpu_layers: int | None,
    as_json: bool,
) -> None:
    """Measure TARGET plain, with a draft in turn and with one beside it, and predict each."""
    console = Console(stderr=True)

    def notify(notice: Notice) -> None:
        console.print(notice.message, style="dim")

    with reported():
        load_prompts(prompts)
        options = EngineOptions(ctx_size, gpu_layers=gpu_layers, draft_model="")
        asked, ends, path = _asked(target, options, prompts, n_prompts)
        opened = open_model(path, options, notify)
        with closing(opened.target), Progress(console=console) as progress:
            second = find_second(draft, host_of(opened), notify)
            found = measure(opened, second, asked, max_tokens, repeats, ends, progress)
    if as_json:
        click.echo(json.dumps(as_object(found)))
    else:
        show(found, Console())


def _asked(target: str, options: EngineOptions, prompts: Path, n: int) -> tuple[list[list[int]], frozenset[int], Path]:
    """The prompts as the model's chat template puts them; an engine is opened for a moment."""
    from tools.asking import Asker

    with Engine.open(target, options) as engine:
        asker = Asker(engine)
        room = options.ctx_size // 2
        asked = [tokens for one in load_questions(prompts, 4 * n) if len(tokens := asker.tokens(one.text)) <= room]
        return asked[:n], end_tokens(engine.vocab, engine.card), engine.header.path


if __name__ == "__main__":
    main()
