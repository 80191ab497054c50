"""From what the caller says of a second model to one at work: found, checked, measured beside this target, weighed.

One that was asked for by name fails loudly. One that a card knows as this model's draft is used where it is on disk and
was measured; whatever is wrong with it is a notice, and the engine goes on without.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.engine.finding import find_model
from edgespec.engine.partner import MAX_DRAFT, PRIOR_ACCEPTANCE, Partner, left_for, weigh
from edgespec.engine.second import Second, fitting_gguf, fitting_step, is_step_folder
from edgespec.errors import EdgeSpecError
from edgespec.events import Notice
from edgespec.library.card import ModelCard, draft_cards, load_cards
from edgespec.library.header import GgufHeader
from edgespec.library.resolve import installed_path, open_library
from edgespec.spec.outcomes import constant
from edgespec.spec.placement import Choice
from edgespec.tune.pair import PairTimes, measure_pair, pair_records, save_pair, stored_pair
from edgespec.tune.tuning import Tuned

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget

Notify = Callable[[Notice], None]

# Cells of the context that a pair is measured in: its texts are short.
_MEASURED_CELLS = 2048


@dataclass(frozen=True, slots=True)
class Host:
    """The opened target that a draft is to fit. tuned: what was measured with its settings. library: fingerprint."""

    header: GgufHeader
    target: LlamaTarget
    tuned: Tuned | None
    library: str

    @property
    def n_threads(self) -> int:
        return self.target.settings.n_threads

    @property
    def on_gpu(self) -> bool:
        return self.target.settings.n_gpu_layers != 0


def find_partner(reference: str | None, card: ModelCard | None, host: Host, notify: Notify) -> Partner | None:
    """reference: as `EngineOptions.draft_model`; a second one behind a comma drafts for the first, in a cascade.

    Raises EdgeSpecErrors for one that was asked for by name.
    """
    if reference:
        first, _, below = reference.partition(",")
        return _measured_partner(first, host, notify, _below(below.strip(), host, notify))
    return None if reference is not None or card is None else _of_card(card, host, notify)


def _measured_partner(reference: str, host: Host, notify: Notify, below: Partner | None) -> Partner:
    second = find_second(reference.strip(), host, notify)
    times = _known(second, host) or measured(second, host)
    return Partner(second, times, weighed(times, host), time.perf_counter, below)


def _below(reference: str, host: Host, notify: Notify) -> Partner | None:
    """The third model. It always works in turn with the second one, so nothing is weighed."""
    if not reference:
        return None
    second = find_second(reference, host, notify)
    return Partner(second, _known(second, host) or measured(second, host), None, time.perf_counter)


def find_second(reference: str, host: Host, notify: Notify) -> Second:
    """Raises what the files raise, and PairMismatch."""
    return fitting(reference, host.header, host.target.settings.n_ctx, host.library, notify)


def fitting(reference: str, target: GgufHeader, n_ctx: int, library: str, notify: Notify) -> Second:
    """The same for a target that is not loaded."""
    if is_step_folder(reference):
        return fitting_step(Path(reference).expanduser(), target, n_ctx, notify)
    found = find_model(reference)
    return fitting_gguf(found.path, found.name, target, n_ctx, library, notify)


def measured(second: Second, host: Host) -> PairTimes:
    """Measure it beside the target, a few seconds, and keep that. Raises what both raise."""
    n_cells = min(_MEASURED_CELLS, host.target.settings.n_ctx)
    with closing(host.target.sibling(n_cells)) as bench:
        times = measure_pair(bench, second.make, host.n_threads, host.on_gpu, time.perf_counter)
    save_pair(host.header.path, second.fingerprint, host.library, host.n_threads, pair_records(), times)
    return times


def weighed(times: PairTimes, host: Host, acceptance: float = PRIOR_ACCEPTANCE) -> Choice | None:
    """None where the target was not measured: then there is nothing to weigh."""
    return weighed_by(times, host.tuned, acceptance)


def weighed_by(times: PairTimes, tuned: Tuned | None, acceptance: float = PRIOR_ACCEPTANCE) -> Choice | None:
    if tuned is None:
        return None
    fewer = left_for(tuned.table, tuned.alone, tuned.settings.n_threads, times.target_threads)
    return weigh(tuned.table, fewer, times, constant(acceptance, MAX_DRAFT))


def _known(second: Second, host: Host) -> PairTimes | None:
    return stored_pair(host.header.path, second.fingerprint, host.library, host.n_threads, pair_records())


def _of_card(card: ModelCard, host: Host, notify: Notify) -> Partner | None:
    """The first known draft that is on disk and was measured."""
    library = open_library()
    for one in draft_cards(card, load_cards()):
        path = installed_path(one, library)
        if path is None:
            continue
        try:
            second = fitting_gguf(path, one.id, host.header, host.target.settings.n_ctx, host.library, notify)
            times = _known(second, host)
            if times is not None:
                return Partner(second, times, weighed(times, host), time.perf_counter)
        except EdgeSpecError as error:
            notify(Notice("draft-unusable", f"{one.id} cannot draft: {error}"))
    return None
