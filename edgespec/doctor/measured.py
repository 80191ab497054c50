"""What the stored tuning says for a text of so many tokens: its settings, what its passes cost, its exact widths.

Pure functions of a tuning and of what an engine says of itself; they take the engine's own way to choose. Measures
nothing, reads no file.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from edgespec.backend.settings import LlamaSettings
from edgespec.doctor.facts import ChoiceFacts, ClassFacts, Curve, Origin, SettingsFacts, Speedup, Wishes
from edgespec.engine.arrangement import rearranged
from edgespec.engine.choosing import tuned_as
from edgespec.engine.pace import PaceStatus
from edgespec.events import Notice
from edgespec.spec.cost import CostTable
from edgespec.spec.policy import Explanation
from edgespec.spec.predict import break_even_table
from edgespec.tune.tuning import Candidate, Tuned, Tuning
from edgespec.tune.words import in_words


@dataclass(frozen=True, slots=True)
class OpenedFacts:
    """What an engine says of itself. tuning and explanation: None while nothing is measured."""

    settings: LlamaSettings
    notices: tuple[Notice, ...]
    tuning: Tuning | None
    explanation: Explanation | None
    pace: PaceStatus | None = None

    @property
    def at_full_speed(self) -> bool:
        return self.pace is None or self.pace.n_threads == self.pace.n_wanted


def settings_for(settings: LlamaSettings, tuning: Tuning | None, n_tokens: int) -> LlamaSettings:
    """What an engine with these settings changes to for a text of so many tokens. Settings that were not measured stay
    as they are: what led to them, memory or a crash, is still there.
    """
    if tuning is None or tuned_as(settings, tuning) is None:
        return settings
    return rearranged(settings, tuning.for_length(n_tokens))


def settings_facts(
    settings: LlamaSettings, tuning: Tuning | None, forced: Seq[str], notices: Seq[Notice], context: int
) -> SettingsFacts:
    untuned = Origin.FORCED if forced else Origin.PROBED
    bare = SettingsFacts(settings, untuned, tuple(forced), notices=tuple(notices))
    if tuning is None:
        return bare
    tuned = tuned_as(settings, tuning)
    died = [one for one in tuning.candidates if one.fate.startswith("died")]
    return replace(
        bare,
        origin=untuned if tuned is None else Origin.TUNED,
        measured_on=tuning.measured_on,
        n_tried=len(tuning.candidates),
        speedup=speedup_of(tuning, tuned, context) if tuned else None,
        died=tuple(f"{in_words(one.settings)} {one.fate}" for one in died),
        twin_died=next((_told(one) for one in died if _is_twin(one.settings, settings)), ""),
        cut_short=tuning.is_partial,
        choices=_choices(settings, tuning) if tuned else (),
    )


def _told(one: Candidate) -> str:
    return f"{in_words(one.settings)} {one.fate}"


def _is_twin(one: LlamaSettings, used: LlamaSettings) -> bool:
    """The same with extra buffers. Threads do not count: what dies, dies with any number of them."""
    kept = (used.flash_attention, used.kv_type, used.n_gpu_layers, used.main_gpu)
    same = (one.flash_attention, one.kv_type, one.n_gpu_layers, one.main_gpu) == kept
    return same and one.extra_buffers and not used.extra_buffers


def _choices(settings: LlamaSettings, tuning: Tuning) -> tuple[ChoiceFacts, ...]:
    ends: list[int | None] = [one.up_to for one in tuning.choices[:-1]]
    ways = [rearranged(settings, one.tuned) for one in tuning.choices]
    return tuple(ChoiceFacts(up_to, way) for up_to, way in zip([*ends, None], ways, strict=True))


def speedup_of(tuning: Tuning, tuned: Tuned, context: int) -> Speedup | None:
    """Over the library's defaults, at the nearest of the contexts that these settings are for; None where one of both
    was not measured there.
    """
    usual, own = _plain(tuning, tuning.defaults), _plain(tuning, tuned.settings)
    both = list(zip(tuning.contexts, usual, own, strict=False))
    near = [one for one in both if tuning.for_length(one[0]) == tuned]
    if not near:
        return None
    at, usual_seconds, own_seconds = min(near, key=lambda one: abs(one[0] - context))
    return Speedup(usual_seconds / own_seconds, at)


def _plain(tuning: Tuning, settings: LlamaSettings) -> tuple[float, ...]:
    """Of the candidate with these settings; the length of chunks is chosen after the candidates were compared."""
    wanted = in_words(settings)
    return next((one.plain_seconds for one in tuning.candidates if in_words(one.settings) == wanted), ())


# -- prices -----------------------------------------------------------------------------------------------------------


def curve_of(tuned: Tuned, wishes: Wishes, widths: ClassFacts | None) -> Curve:
    return curve_at(tuned.table, wishes.context, widths.widths if wishes.exact and widths else ())


def live_curve(settings: LlamaSettings, opened: OpenedFacts, wishes: Wishes, widths: ClassFacts | None) -> Curve | None:
    """For these settings. With what rounds have taught about the prices, if they are those of the engine at full speed;
    the table's own are those of a quiet machine.
    """
    tuned = tuned_as(settings, opened.tuning)
    if tuned is None:
        return None
    curve, explained = curve_of(tuned, wishes, widths), opened.explanation
    if explained is None or settings != opened.settings or not opened.at_full_speed:
        return curve
    return replace(curve, break_even=explained.break_even)


def curve_at(table: CostTable, context: int, width_class: Seq[int]) -> Curve:
    """The measured widths, of a class of widths only its own; the first of them is what a plain round takes."""
    pairs = [
        (width, seconds)
        for width, seconds in zip(table.widths, table.at(context), strict=True)
        if not width_class or width in width_class
    ] or [(1, table.at(context)[0])]
    widths, seconds = tuple(width for width, _ in pairs), tuple(s for _, s in pairs)
    return Curve(context, widths, seconds, break_even_table(widths, seconds), table.is_partial)


def class_of(widths: Seq[int], tuning: Tuning | None, tuned: Tuned | None, context: int) -> ClassFacts | None:
    """Facts of this class of widths; None for an empty one, which nobody has looked for yet."""
    if not widths:
        return None
    is_cheapest = tuning is not None and tuning.width_class == tuple(widths)
    return ClassFacts(tuple(widths), is_cheapest, _pair_ratio(tuned.table, context) if tuned else None)


def _pair_ratio(table: CostTable, context: int) -> float | None:
    seconds = dict(zip(table.widths, table.at(context), strict=True))
    return seconds[2] / seconds[1] if 2 in seconds else None
