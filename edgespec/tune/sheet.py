"""The times measured so far: by line (an opened setting and a number of threads), context and width.

A pass of one row runs on `n_threads`, a wider one on the batch threads, so candidates that differ in threads alone
share lines. Plain data that becomes text and comes back, so that a tuning that was broken off goes on. Measures
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import replace
from statistics import median

from edgespec.backend.settings import LlamaSettings
from edgespec.spec.cost import CostTable
from edgespec.tune.tuning import read_settings


def line_of(settings: LlamaSettings, width: int) -> LlamaSettings:
    """The settings under which a pass of this width is measured: one number of threads, whatever its width."""
    return replace(settings, n_threads=settings.n_threads if width == 1 else settings.batch_threads, n_threads_batch=0)


def opening_of(settings: LlamaSettings) -> LlamaSettings:
    """What a child is opened with: threads can be changed later, all else cannot."""
    return replace(settings, n_threads=1, n_threads_batch=0)


class Sheet:
    """contexts: tokens of context that passes are measured at, ascending; () until they are planned. widest: rows that
    a pass may have. token_seconds: of reading a token, when the contexts were planned. died: openings whose child died,
    and how.
    """

    def __init__(self, contexts: tuple[int, ...] = ()) -> None:
        self.contexts = contexts
        self.widest = 1
        self.token_seconds = 0.0
        self.died: dict[LlamaSettings, str] = {}
        self._samples: dict[LlamaSettings, dict[tuple[int, int], list[float]]] = {}

    def add(self, settings: LlamaSettings, context: int, width: int, seconds: float) -> None:
        times = self._samples.setdefault(line_of(settings, width), {})
        times.setdefault((context, width), []).append(seconds)

    def take_back(self, settings: LlamaSettings, context: int, width: int, seconds: float) -> None:
        """Forget one time that was added."""
        self._samples[line_of(settings, width)][context, width].remove(seconds)

    def begin(self, contexts: tuple[int, ...], token_seconds: float) -> None:
        """Measure at these contexts; what was measured at others is of no use any more."""
        self.contexts = contexts
        self.token_seconds = token_seconds
        self._samples.clear()

    def count(self, settings: LlamaSettings, context: int, width: int) -> int:
        return len(self._times(settings, context, width))

    def seconds(self, settings: LlamaSettings, context: int, width: int) -> float | None:
        """The median; None if it was not measured."""
        times = self._times(settings, context, width)
        return median(times) if times else None

    def plain(self, settings: LlamaSettings) -> tuple[float, ...]:
        """Passes of one row at the contexts, up to the first that was not measured."""
        found: list[float] = []
        for context in self.contexts:
            seconds = self.seconds(settings, context, 1)
            if seconds is None:
                break
            found.append(seconds)
        return tuple(found)

    def table(self, settings: LlamaSettings, widths: Iterable[int]) -> CostTable | None:
        """Those of the widths that were measured at every context with a plain pass; None without a plain pass."""
        contexts = self.contexts[: len(self.plain(settings))]
        if not contexts:
            return None
        wanted = list(widths)
        rows = [[self.seconds(settings, context, width) for width in wanted] for context in contexts]
        kept = [i for i in range(len(wanted)) if all(row[i] is not None for row in rows)]
        seconds = tuple(tuple(row[i] or 0.0 for i in kept) for row in rows)
        is_partial = len(kept) < len(wanted) or len(contexts) < len(self.contexts)
        return CostTable(contexts, tuple(wanted[i] for i in kept), seconds, is_partial)

    def _times(self, settings: LlamaSettings, context: int, width: int) -> Seq[float]:
        return self._samples.get(line_of(settings, width), {}).get((context, width), ())

    def to_text(self) -> str:
        samples = [
            [line.to_json(), context, width, times]
            for line, cells in self._samples.items()
            for (context, width), times in cells.items()
        ]
        died = [[opening.to_json(), how] for opening, how in self.died.items()]
        return json.dumps(
            {
                "contexts": self.contexts,
                "widest": self.widest,
                "token_seconds": self.token_seconds,
                "samples": samples,
                "died": died,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Sheet:
        """The sheet that `to_text` wrote. Raises ValueError for any other text."""
        try:
            raw = json.loads(text)
            sheet = cls(tuple(map(int, raw["contexts"])))
            sheet.widest = int(raw["widest"])
            sheet.token_seconds = float(raw["token_seconds"])
            for line, context, width, times in raw["samples"]:
                for seconds in map(float, times):
                    sheet.add(read_settings(line), int(context), int(width), seconds)
            sheet.died = {read_settings(opening): str(how) for opening, how in raw["died"]}
            return sheet
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this is no sheet: {error!r}") from error
