"""From what the caller says of a second model to one at work: found, checked, measured beside this target, weighed.

One that was asked for by name fails loudly, but for want of memory gives way to a smaller one that a card knows. Those
that a card knows as this model's drafts are used where they are on disk and were measured, the one that gains most
first; whatever is wrong with one is a notice, and the engine goes on with the next one, or without.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from edgespec.backend import machine
from edgespec.choice import DRAFTERS
from edgespec.engine.finding import find_model
from edgespec.engine.pair.candidates import KnownDraft, known_drafts, need_of, unusable
from edgespec.engine.pair.devices import CPU, GPU, Devices, free_bytes, on_device
from edgespec.engine.pair.facts import Host as Host
from edgespec.engine.pair.facts import PairFacts, known_acceptance, known_facts, measured_facts
from edgespec.engine.pair.partner import Partner
from edgespec.engine.pair.second import Second, fitting_gguf, fitting_step, is_step_folder
from edgespec.engine.pair.weighing import gain, weighed
from edgespec.engine.progress import OnProgress
from edgespec.errors import EdgeSpecError, EngineFailure, GivenUp, ModelNotFound, NotEnoughMemory
from edgespec.events import Notice
from edgespec.library.card import ModelCard
from edgespec.library.drafts import DraftNeed, StepDown, in_child, on_gpu, plan_together, step_draft
from edgespec.library.header import GgufHeader
from edgespec.library.memory import budget
from edgespec.library.resolve import ResolvedModel
from edgespec.spec.latency import Placement
from edgespec.spec.placement import Choice
from edgespec.stepfile import folder_bytes, read_step
from edgespec.tune.agreement import PairAcceptance
from edgespec.tune.pair import PairTimes, pair_records
from edgespec.tune.tuning import Tuned

Notify = Callable[[Notice], None]


def find_partner(
    reference: str | None, card: ModelCard | None, host: Host, notify: Notify, on_progress: OnProgress | None = None
) -> Partner | None:
    """reference: as `EngineOptions.draft_model`; a second one behind a comma drafts for the first, in a cascade.

    Raises EdgeSpecErrors for one that was asked for by name, and EngineFailure where the callback gives up measuring.
    """
    if reference is not None and not reference:
        return None
    if reference is None:
        return _first_fitting(known_drafts(card, host, notify), host, notify)
    first, _, below = reference.partition(",")
    beneath = _below(below.strip(), host, notify, on_progress)
    try:
        seconds = find_seconds(first.strip(), host, notify)
    except NotEnoughMemory:
        wished = _wished(first.strip(), host)
        others = [one for one in known_drafts(card, host, notify) if one.name != wished.name]
        if not others:
            raise
        return _first_fitting(others, host, notify, beneath, (wished,))
    second, facts = best_measured(seconds, host, notify, on_progress)
    return _partner(second, facts, host, notify, beneath)


def _wished(reference: str, host: Host) -> DraftNeed:
    """What the draft of this name would take."""
    n_ctx = host.target.settings.n_ctx
    if is_step_folder(reference):
        return _step_need(Path(reference).expanduser(), n_ctx)
    found = _found(reference)
    return need_of(found.path, found.name, n_ctx)


def _found(reference: str) -> ResolvedModel:
    """Raises ModelNotFound, which names the drafters too: one of them may have been meant."""
    try:
        return find_model(reference)
    except ModelNotFound as error:
        remedy = f"name a drafter ({', '.join(DRAFTERS)}) or a model: {error.remedy}"
        raise ModelNotFound(f"draft {reference!r}", error.why, remedy) from error


def _step_need(path: Path, n_ctx: int) -> DraftNeed:
    folder = read_step(path)
    return in_child(step_draft(folder.name, folder.file, folder_bytes(path), n_ctx))


def _below(reference: str, host: Host, notify: Notify, on_progress: OnProgress | None) -> Partner | None:
    """The third model. It always works in turn with the second one, and on the CPU, so nothing is weighed."""
    if not reference:
        return None
    second = fitting(reference, host.header, host.target.settings.n_ctx, host.library, notify)
    return Partner(second, measured(second, host, notify, on_progress), None, time.perf_counter)


def _first_fitting(
    known: list[KnownDraft],
    host: Host,
    notify: Notify,
    below: Partner | None = None,
    wished: tuple[DraftNeed, ...] = (),
) -> Partner | None:
    """Of those that were measured, the most wanted first, the first one that the memory has room for and that works.
    wished: wanted more than any of them, and found not to fit.
    """
    left = list(known)
    while left:
        needs = [*wished, *(on_gpu(one.need) if one.device == GPU else one.need for one in left)]
        together = plan_together(0, needs, machine.available_memory_bytes())
        for step in together.steps:
            notify(step.notice())
        taken = next((one for one in left if together.draft and one.name == together.draft.name), None)
        if taken is None or together.draft is None:
            return None
        try:
            n_ctx = together.draft.n_ctx
            second = fitting_gguf(taken.path, taken.name, host.header, n_ctx, host.library, notify, taken.device)
        except EdgeSpecError as error:
            notify(unusable(taken.name, error))
            left, wished = left[left.index(taken) + 1 :], ()
            continue
        return _partner(second, taken.facts, host, notify, below)
    return None


def _partner(second: Second, facts: PairFacts, host: Host, notify: Notify, below: Partner | None) -> Partner:
    choice = weighed(facts, host.tuned)
    if choice is not None and choice.best.placement is Placement.PLAIN:
        notify(not_worth_it(second.name, choice))
    return Partner(second, facts, choice, time.perf_counter, below, partial(_has_room, second))


def not_worth_it(name: str, choice: Choice) -> Notice:
    reasons = "; ".join(loser.reason for loser in choice.losers)
    return Notice(
        StepDown.DRAFT_FREE.value, f"{name} is not expected to pay here ({reasons}): drafting without a second model"
    )


def _has_room(second: Second) -> bool:
    """For the same network a second time, to run it in another place."""
    is_step = is_step_folder(str(second.path))
    need = _step_need(second.path, second.n_ctx) if is_step else need_of(second.path, second.name, second.n_ctx)
    return need.total_bytes <= budget(free_bytes(second.device))


def find_seconds(reference: str, host: Host, notify: Notify) -> list[Second]:
    """This draft on every device that is in question, at least one. Raises what the files raise, PairMismatch, and
    BadInput for a device that it cannot run on; trouble with a further device is a notice.
    """
    found: list[Second] = []
    for device in devices_for(reference, host.devices):
        try:
            found.append(fitting(reference, host.header, host.target.settings.n_ctx, host.library, notify, device))
        except EdgeSpecError as error:
            if not found:
                raise
            notify(unusable(on_device(found[0].name, device), error))
    return found


def devices_for(reference: str, devices: Devices) -> tuple[str, ...]:
    """Raises what `Devices` raises."""
    return devices.for_step() if is_step_folder(reference) else devices.for_gguf()


def fitting(reference: str, target: GgufHeader, n_ctx: int, library: str, notify: Notify, device: str = CPU) -> Second:
    """For a target that need not be loaded. Raises what the files raise, and PairMismatch."""
    if is_step_folder(reference):
        return fitting_step(Path(reference).expanduser(), target, n_ctx, notify, device)
    found = _found(reference)
    return fitting_gguf(found.path, on_device(found.name, device), target, n_ctx, library, notify, device)


def best_measured(
    seconds: list[Second], host: Host, notify: Notify, on_progress: OnProgress | None = None
) -> tuple[Second, PairFacts]:
    """On which device a draft is predicted to gain most; the first of them where the target was not measured, so that
    nothing can be weighed. One that fails on a further device is a notice, now and when it would be measured again.
    """
    first, *others = seconds
    best, facts = first, measured(first, host, notify, on_progress)
    for one in others if host.tuned else ():
        try:
            found = _measured_apart(one, host, notify, on_progress)
        except GivenUp:
            raise
        except EdgeSpecError as error:
            notify(unusable(one.name, error))
            continue
        if gain(weighed(found, host.tuned)) > gain(weighed(facts, host.tuned)):
            best, facts = one, found
    return best, facts


def _measured_apart(second: Second, host: Host, notify: Notify, on_progress: OnProgress | None) -> PairFacts:
    """As `measured`. What failed once is not tried at every start: a driver may take a minute to say no."""
    records, key = pair_records(), _unfit_key(second, host)
    why = records.get(key)
    if why:
        raise EngineFailure(f"{second.name}", why, "'edgespec tune' with '--draft-model' tries it again")
    try:
        return measured(second, host, notify, on_progress)
    except GivenUp:
        raise
    except EdgeSpecError as error:
        records.put(key, error.why)
        raise


def measured(second: Second, host: Host, notify: Notify, on_progress: OnProgress | None = None) -> PairFacts:
    """What is known of it, measured now if it never was. Raises what both models raise."""
    known = known_facts(second.fingerprint, host)
    if known is not None and known.acceptance is not None:
        return known
    notify(
        Notice(
            "measuring-draft",
            f"{second.name} was not measured beside this model yet: that takes up to a minute now, once; "
            "'edgespec tune' with '--draft-model' does it beforehand",
        )
    )
    times = known.times if known else None
    return measured_facts(second, host, times, known_acceptance(second.fingerprint, host), on_progress)


def forgive(second: Second, host: Host) -> None:
    """Let one that failed on its device be tried again."""
    key = _unfit_key(second, host)
    if pair_records().get(key):
        pair_records().put(key, "")


def _unfit_key(second: Second, host: Host) -> str:
    return f"unfit|{second.fingerprint}|{host.library}|{machine.describe()}"


def weighed_by(times: PairTimes, tuned: Tuned | None, acceptance: PairAcceptance | None = None) -> Choice | None:
    """What these predict. None where the target was not measured."""
    return weighed(PairFacts(times, acceptance), tuned)
