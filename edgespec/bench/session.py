"""One measurement from beginning to end over an opened engine: arms made, folder claimed, plan run, report drawn up."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from edgespec.backend.probe import model_fingerprint
from edgespec.bench.arms import Arm, engine_arms
from edgespec.bench.asking import Asking
from edgespec.bench.baseline import library_arm
from edgespec.bench.journal import Journal
from edgespec.bench.measure import Progress, left_out, measure
from edgespec.bench.place import Place, code_fingerprint, load_now
from edgespec.bench.plan import Amount
from edgespec.bench.prompts import Prompts, load_prompts
from edgespec.bench.report import Report, report
from edgespec.bench.runs import Identity, RunFolder
from edgespec.engine import Engine, GenerateOptions
from edgespec.errors import ContextOverflow
from edgespec.events import Notice
from edgespec.library.card import ModelCard
from edgespec.spec.ports import Drafter


@dataclass(frozen=True, slots=True)
class Job:
    """What is asked for. drafts: names of choices; plain is measured in any case. `options.draft` means nothing.
    drafters: what the engine was opened with to guess instead of its own, None for those.
    """

    prompts: Path
    amount: Amount
    drafts: tuple[str, ...]
    options: GenerateOptions
    with_defaults: bool = False
    drafters: tuple[Drafter, ...] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """load_at_end: as `place.load`, after the last answer."""

    report: Report
    place: Place
    load_at_end: float
    folder: Path


_NOT_TUNED = Notice(
    "not-tuned",
    "this model was not measured here, so plain is not at its best and auto drafts nothing: run 'edgespec tune' first",
)

Notify = Callable[[Notice], None]


def run(
    job: Job,
    engine: Engine,
    card: ModelCard | None,
    place: Place,
    out: Path,
    notify: Notify,
    on_turn: Callable[[Progress], None],
    journal: Journal | None = None,
) -> Outcome:
    """Measure what `out` lacks. Ctrl-C ends it early, and the outcome says so. Raises EdgeSpecErrors.

    `journal` is written into the folder after every turn.
    """
    asking = Asking(engine, card)
    room = engine.settings.n_ctx - job.options.max_tokens
    prompts, n_longer = left_out(load_prompts(job.prompts), asking.tokens, room)
    if engine.tuning is None:
        notify(_NOT_TUNED)
    _say_what_is_left_out(prompts, n_longer, engine.settings.n_ctx, room, notify)
    with _arms(job, engine, asking, card, notify) as arms:
        names = tuple(arm.name for arm in arms)
        folder = RunFolder(out, _identity(job, engine, place, names))
        if folder.n_foreign:
            notify(Notice("foreign-lines", f"lines in {out} that are no answers, passed over: {folder.n_foreign}"))
        is_complete = True
        try:
            measure(prompts, arms, job.amount, folder, asking.tokens, on_turn, notify, journal)
        except KeyboardInterrupt:
            is_complete = False
    for line in _short_of(prompts, job.amount, names, folder) if is_complete else []:
        notify(line)
    return Outcome(report(folder.runs, names, out, folder.n_foreign, is_complete), place, load_now(), out)


@contextmanager
def _arms(
    job: Job, engine: Engine, asking: Asking, card: ModelCard | None, notify: Notify
) -> Iterator[tuple[Arm, ...]]:
    options = replace(job.options, stop=asking.stops)
    arms = engine_arms(engine, job.drafts, options)
    if not job.with_defaults:
        yield arms
        return
    with library_arm(engine, card, options.max_tokens, notify) as defaults:
        yield (*arms, defaults)


def _identity(job: Job, engine: Engine, place: Place, arms: tuple[str, ...]) -> Identity:
    return Identity(
        model=model_fingerprint(engine.header.path),
        library=place.library,
        machine=place.machine,
        settings=engine.settings.to_json(),
        prompts=hashlib.sha256(job.prompts.read_bytes()).hexdigest()[:16],
        arms=arms,
        max_tokens=job.options.max_tokens,
        exact=job.options.exact,
        sampling=json.dumps(asdict(job.options.sampling), sort_keys=True),
        tuning=hashlib.sha256(engine.tuning.to_text().encode()).hexdigest()[:16] if engine.tuning else "untuned",
        code=code_fingerprint(),
        drafters=tuple(one.name for one in job.drafters or ()),
    )


def _say_what_is_left_out(prompts: Prompts, n_longer: int, n_ctx: int, room: int, notify: Notify) -> None:
    """Raises ContextOverflow when no prompt is left."""
    if not prompts:
        raise ContextOverflow(
            "every prompt", f"the context holds {n_ctx} tokens, {max(0, room)} beside the answer", "raise --ctx-size"
        )
    if n_longer:
        notify(Notice("long-prompts", f"prompts left out, too long for {n_ctx} tokens with the answer: {n_longer}"))


def _short_of(prompts: Prompts, amount: Amount, arms: tuple[str, ...], folder: RunFolder) -> Iterator[Notice]:
    """Categories that gave some arm fewer tokens than were asked for, since there were no more prompts."""
    for category, listed in prompts.items():
        first = min(sum(folder.runs.tokens_of(prompt, arm) for prompt in listed) for arm in arms)
        if first * amount.n_repeats < amount.min_tokens:
            message = f"{category}: about {first * amount.n_repeats} tokens per arm, for want of more prompts"
            yield Notice("few-tokens", message)
