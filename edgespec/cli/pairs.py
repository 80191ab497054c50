"""Second models in `edgespec tune`: measured beside the model that was just tuned, and shown with what they promise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from edgespec.errors import EdgeSpecError

if TYPE_CHECKING:
    from rich.console import Console

    from edgespec.engine.pair.facts import Host, PairFacts
    from edgespec.engine.pair.second import Second
    from edgespec.engine.progress import Progress
    from edgespec.events import Notice
    from edgespec.library.resolve import ResolvedModel
    from edgespec.spec.latency import Estimate
    from edgespec.spec.placement import Choice
    from edgespec.tune.pair import StepTimes
    from edgespec.tune.store import Forced

# Depths of a chain that are shown.
_SHOWN_DEPTHS = (1, 4, 8)


@dataclass(frozen=True, slots=True)
class Wished:
    """Second models to measure. model: names joined by commas, "none" for none; None for those that the model's card
    knows and that are on disk. device: as of `--draft-device`.
    """

    model: str | None
    device: str


@dataclass(frozen=True, slots=True)
class PairFound:
    """A draft beside the tuned model. choice: the ways to run it, None where nothing could be weighed."""

    draft: str
    facts: PairFacts
    choice: Choice | None


def measure_pairs(
    model: ResolvedModel,
    forced: Forced,
    wished: Wished,
    console: Console,
    notices: list[Notice],
) -> tuple[PairFound, ...]:
    """The wished drafts, anew, each of them on every device that is in question.

    Raises what the models raise, but for devices beside the first: what fails there is a notice. After a Ctrl-C what
    was finished is kept.
    """
    from edgespec.engine.opening import open_model
    from edgespec.engine.options import EngineOptions
    from edgespec.engine.pair.candidates import drafts_on_disk
    from edgespec.engine.pair.hosting import host_of

    known = list(drafts_on_disk(model.card)) if model.card is not None and wished.model is None else []
    named = [name.strip() for name in wished.model.split(",")] if wished.model else [str(path) for _, path in known]
    if not named:
        return ()
    extra = forced.extra_buffers is not False
    options = EngineOptions(threads=forced.threads, gpu_layers=forced.gpu_layers, extra_buffers=extra, draft_model="")
    opened = open_model(model.path, options, notices.append)
    try:
        host = host_of(opened, model.card, wished.device)
        return tuple(found for name in named for found in _everywhere(name, host, console, notices))
    finally:
        opened.target.close()


def _everywhere(reference: str, host: Host, console: Console, notices: list[Notice]) -> Iterator[PairFound]:
    from edgespec.engine.pair.candidates import unusable
    from edgespec.engine.pair.pairing import find_seconds, forgive

    first, *others = find_seconds(reference, host, notices.append)
    yield _measured(first, host, console)
    for second in others:
        forgive(second, host)
        try:
            yield _measured(second, host, console)
        except EdgeSpecError as error:
            notices.append(unusable(second.name, error))


def _measured(second: Second, host: Host, console: Console) -> PairFound:
    from edgespec.engine.pair.facts import measured_facts
    from edgespec.engine.pair.weighing import weighed

    columns = (BarColumn(), TextColumn("{task.description}"))
    with Bar(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)

        def show(now: Progress) -> None:
            bar.update(task, completed=now.share, description=now.doing)

        facts = measured_facts(second, host, on_progress=show)
    return PairFound(second.name, facts, weighed(facts, host.tuned))


def _ways(choice: Choice) -> list[Estimate]:
    """Plain decoding first."""
    from edgespec.spec.latency import Placement

    every = [choice.best, *(loser.estimate for loser in choice.losers)]
    return sorted(every, key=lambda one: list(Placement).index(one.placement))


# -- as text ----------------------------------------------------------------------------------------------------


def show_pair(found: PairFound, model: str, console: Console) -> None:
    console.print(Text(f"{found.draft} drafting for {model}"))
    for line in _lines(found):
        console.print(Text(line), soft_wrap=True)
    if found.choice is not None:
        console.print(_table(found.choice))


def _lines(found: PairFound) -> Iterator[str]:
    times, acceptance = found.facts.times, found.facts.acceptance
    yield f"A step takes {_step(times.in_turn)} in turn with the model, {_step(times.beside)} beside it."
    slower = f"the model by {times.kappa_target:.0%}, the draft by {times.kappa_draft:.0%}"
    yield f"Side by side each is slower: {slower}."
    if acceptance is not None:
        depths = ", ".join(f"{found.facts.survivals[depth - 1]:.0%} of {depth}" for depth in _SHOWN_DEPTHS)
        said = f"Of {acceptance.n_tokens} tokens that the model said, the draft would have said {acceptance.top1:.0%}"
        yield f"{said}; of its chains there come true: {depths} tokens."


def _step(times: StepTimes) -> str:
    by = f"{times.n_threads} thread{'s' * (times.n_threads > 1)}"
    return f"{1e3 * times.step_seconds[0][1]:.1f} ms ({by})"


def _table(choice: Choice) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("EXPECTED", "TOK/S", "X PLAIN", "DRAFTED", "HITS", ""):
        table.add_column(name, justify="left" if name in ("EXPECTED", "") else "right", no_wrap=bool(name))
    plain, *_ = ways = _ways(choice)
    for one in ways:
        table.add_row(
            one.placement.value,
            f"{one.tokens_per_second:.1f}",
            f"{one.tokens_per_second / plain.tokens_per_second:.2f}",
            f"{one.n_drafted}" if one.n_drafted else "",
            f"{one.hit_rate:.0%}" if one.candidate.beside else "",
            "chosen" if one is choice.best else "",
        )
    return table


# -- as JSON ----------------------------------------------------------------------------------------------------


def pair_as_json(found: PairFound) -> dict[str, object]:
    times, acceptance, choice = found.facts.times, found.facts.acceptance, found.choice
    return {
        "draft": found.draft,
        "in_turn": _times_json(times.in_turn),
        "beside": _times_json(times.beside),
        "target_threads": times.target_threads,
        "kappa_target": times.kappa_target,
        "kappa_draft": times.kappa_draft,
        "acceptance": acceptance
        and {
            "n_tokens": acceptance.n_tokens,
            "top1": acceptance.top1,
            "survivals": acceptance.survivals,
            "ranks": acceptance.ranks,
        },
        "predicted": choice and {one.placement.value: one.tokens_per_second for one in _ways(choice)},
        "chosen": choice and choice.best.placement.value,
    }


def _times_json(times: StepTimes) -> dict[str, object]:
    steps = {str(context): seconds for context, seconds in times.step_seconds}
    return {"n_threads": times.n_threads, "step_seconds": steps, "read_seconds": times.read_seconds}
