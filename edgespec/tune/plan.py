"""What is measured, in which order, at which contexts: constants and arithmetic of a search. Measures nothing."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.backend.settings import LlamaSettings
from edgespec.tune.sheet import Sheet

# Every candidate's widths in the coarse round, and those of the curve with one thread.
COARSE = (1, 2, 4, 8, 16)
FULL = (*range(1, 17), 20, 24, 32)
# When time runs out in mid-curve, evenly spread widths are more use than the narrow half of them.
BY_USE = (1, 2, 4, 8, 16, 3, 6, 12, 5, 24, 10, 7, 14, 32, 20, 9, 11, 13, 15)
# A plain pass decides most, and takes least: it is timed so often where others are timed once.
PLAIN_SAMPLES = 3
# A pass as long as this is timed once and needs none before it: what disturbs it is short beside it.
LONG_SECONDS = 0.25
# Passes of each width of the full curve, one in each sweep over the finalists.
SWEEPS = 5
# Parts of the time cap at whose end a stage must be over, so that the later ones get their share.
COARSE_SHARE, LONG_SHARE, SHORT_SHARE, ALONE_SHARE, READING_SHARE = 0.5, 0.68, 0.85, 0.91, 0.95
# How much is done when only the width probe is left, which does not count towards the cap.
PROBING_SHARE = 0.97
# Reading the contexts may take this part of the cap; about so many openings read the long one.
READ_SHARE, N_READERS = 0.3, 3
# (short, long): the first that the model's speed and its cache allow.
CONTEXTS = ((128, 1024), (128, 512), (64, 256), (32, 128), (16, 64), (16,), (1,))
# Tokens that passes may leave behind where they cannot be taken back, before the text is read anew.
DRIFT = 32
# Tokens read before contexts are planned: the first half pages the model in, the second is timed.
TIMED = 64


def plan_contexts(n_ctx: int, token_seconds: float, cap_seconds: float) -> tuple[int, ...]:
    """Context lengths to measure at, when a token is read in `token_seconds`."""
    for contexts in CONTEXTS:
        fits = contexts[-1] + FULL[-1] < n_ctx
        if fits and sum(contexts) * token_seconds * N_READERS <= READ_SHARE * cap_seconds:
            return contexts
    return CONTEXTS[-1]


def expected_seconds(sheet: Sheet, settings: LlamaSettings, context: int, width: int) -> float:
    """What a pass will take: as measured, else in proportion to a narrower one; 0 while nothing is known."""
    for near in (context, *sheet.contexts):
        for narrower in range(width, 0, -1):
            known = sheet.seconds(settings, near, narrower)
            if known is not None:
                return known * width / narrower
    return 0.0


@dataclass(frozen=True, slots=True)
class Visit:
    """One sweep over the widths of a finalist at a context, to be over at this share of the time cap."""

    one: LlamaSettings
    context: int
    sweep: int
    share: float


def visits(chosen: Seq[LlamaSettings], contexts: Seq[int], together: bool, begun: float) -> list[Visit]:
    """The long text first, since children hold it, and going back to a short one needs no reading.

    together: all children can live at the same time, so sweeps go over all of them in turns, and what slows the machine
    for a while slows all. Else each child is visited once, for its part of the time that is left from `begun` on.
    """
    order = list(reversed(contexts))
    if together:
        return [
            Visit(one, context, sweep, SHORT_SHARE if context == contexts[0] else LONG_SHARE)
            for context in order
            for sweep in range(SWEEPS)
            for one in chosen
        ]
    stops = [(one, context) for one in chosen for context in order]
    part = max(0.0, SHORT_SHARE - begun) / max(1, len(stops))
    return [
        Visit(one, context, sweep, begun + part * (i + 1))
        for i, (one, context) in enumerate(stops)
        for sweep in range(SWEEPS)
    ]


def plain_samples(seconds: float) -> int:
    """How often a plain pass that takes so long is timed at a time."""
    return 1 if seconds >= LONG_SECONDS else PLAIN_SAMPLES


def half_of(finalists: Seq[LlamaSettings], n_measured: int) -> list[LlamaSettings]:
    """The better half of what was measured, and never fewer than two: one may be best at each context."""
    return list(finalists[: max(2, n_measured // 2)])
