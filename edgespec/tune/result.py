"""From a filled sheet to the record that is kept: the choices with their curves, and what became of every candidate.

Pure; measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace

from edgespec.backend.settings import LlamaSettings
from edgespec.spec.cost import CostTable
from edgespec.tune import plan
from edgespec.tune.decide import as_choices, choose
from edgespec.tune.sheet import Sheet, line_of, opening_of
from edgespec.tune.tuning import Candidate, Tuned, Tuning

SLOWER, LATE = "clearly slower", "out of time"


@dataclass(frozen=True, slots=True)
class Extras:
    """What is measured of the chosen settings alone. prefill_chunks: the usual one where it was not measured."""

    prefill_chunks: Mapping[LlamaSettings, int] = field(default_factory=dict)
    width_class: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of candidates: openings that failed and how, lines (an opening with one number of threads) whose
    passes hung, and settings ruled out early.
    """

    failed: Mapping[LlamaSettings, str]
    slower: frozenset[LlamaSettings]
    hung: Mapping[LlamaSettings, str] = field(default_factory=dict)

    def failure(self, one: LlamaSettings) -> str:
        """In a few words; "" if there was none."""
        lines = (line_of(one, 1), line_of(one, 2))
        hung = next((self.hung[line] for line in lines if line in self.hung), "")
        return self.failed.get(opening_of(one), hung)


def choose_on(sheet: Sheet, ones: Seq[LlamaSettings]) -> list[LlamaSettings]:
    """The best of these for each context of the sheet that any of them was measured at; [] if there is none.

    They are compared at the widths that all of them have, else the one with more widths would look flatter.
    """
    n_contexts = max((len(sheet.plain(one)) for one in ones), default=0)
    full = [one for one in ones if len(sheet.plain(one)) == n_contexts > 0]
    tables = [table for table in (sheet.table(one, plan.FULL) for one in full) if table is not None]
    common = sorted(set(plan.FULL).intersection(*(table.widths for table in tables)))
    compared = {one: table for one in full if (table := sheet.table(one, common)) is not None}
    return choose(compared, sheet.contexts[:n_contexts])


def tuning_of(
    sheet: Sheet,
    tried: Seq[LlamaSettings],
    defaults: LlamaSettings,
    chosen: Seq[LlamaSettings],
    fates: Fates,
    extras: Extras,
    measured_on: str,
) -> Tuning:
    """chosen: for each context of the sheet, at least one."""
    tuned = [_tuned(sheet, one, extras) for one in chosen]
    listed = tuple(_candidate(sheet, one, fates) for one in tried)
    return Tuning(
        choices=as_choices(tuned, sheet.contexts),
        contexts=sheet.contexts[: len(chosen)],
        candidates=listed,
        defaults=defaults,
        plain_speedup_over_defaults=_speedup(sheet, defaults, chosen[0]),
        width_class=extras.width_class,
        is_partial=_is_partial(tuned, listed),
        measured_on=measured_on,
    )


def _is_partial(tuned: Seq[Tuned], listed: Seq[Candidate]) -> bool:
    cut = any(one.table.is_partial or one.alone.is_partial for one in tuned)
    return cut or any(candidate.fate == LATE for candidate in listed)


def _tuned(sheet: Sheet, one: LlamaSettings, extras: Extras) -> Tuned:
    table = sheet.table(one, _possible(sheet, plan.FULL))
    if table is None:
        raise ValueError("a setting without a plain pass was chosen")
    alone = sheet.table(replace(one, n_threads=1, n_threads_batch=0), _possible(sheet, plan.COARSE))
    if one.batch_threads == one.n_threads == 1:
        alone = table
    settings = replace(one, prefill_chunk=extras.prefill_chunks.get(one, LlamaSettings().prefill_chunk))
    return Tuned(settings, table, alone or _guessed_alone(table, max(one.n_threads, one.batch_threads)))


def _guessed_alone(table: CostTable, n_threads: int) -> CostTable:
    """Where there was no time to measure one thread: as if all threads shared the work evenly, the most it can cost."""
    seconds = tuple(tuple(n_threads * value for value in row) for row in table.seconds)
    return CostTable(table.contexts, table.widths, seconds, is_partial=True)


def _possible(sheet: Sheet, widths: Seq[int]) -> list[int]:
    return [width for width in widths if width <= sheet.widest]


def _candidate(sheet: Sheet, one: LlamaSettings, fates: Fates) -> Candidate:
    plain = sheet.plain(one)
    if fates.failure(one):
        return Candidate(one, plain, fates.failure(one))
    if len(plain) == len(sheet.contexts) > 0:
        return Candidate(one, plain)
    return Candidate(one, plain, SLOWER if one in fates.slower else LATE)


def _speedup(sheet: Sheet, defaults: LlamaSettings, chosen: LlamaSettings) -> float:
    """0.0 if the defaults were not measured."""
    usual, best = sheet.plain(defaults), sheet.plain(chosen)
    return usual[0] / best[0] if usual and best else 0.0
