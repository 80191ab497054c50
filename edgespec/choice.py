"""Where guesses for an answer come from, as it is asked for: `auto`, `off`, or drafters by name. Plain frozen data."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import ClassVar

from edgespec.errors import BadInput

AUTO, OFF, MODEL, CASCADE, LOOKAHEAD = "auto", "off", "model", "cascade", "lookahead"
# Drafters that can be asked for by name, in the order in which they are asked.
DRAFTERS = ("lookup", "suffix", "recycle", LOOKAHEAD, "jacobi", CASCADE, MODEL)
# Those that need a second model.
WITH_MODEL = (MODEL, CASCADE)


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """names: drafters in the order in which they are asked, or "auto" (what pays) or "off" (plain decoding) alone.

    `model` is the engine's second model. `value` is what `parse` reads.
    """

    names: tuple[str, ...]

    AUTO: ClassVar[DraftChoice]
    OFF: ClassVar[DraftChoice]
    LOOKUP: ClassVar[DraftChoice]
    MODEL: ClassVar[DraftChoice]

    @property
    def value(self) -> str:
        return ",".join(self.names)

    def asks(self, drafter: str) -> bool:
        """Whether this drafter was asked for by name."""
        return drafter in self.names

    @classmethod
    def parse(cls, text: str) -> DraftChoice:
        """Names joined by commas, in any case and order. Raises BadInput for what is no drafter's name."""
        names = [name.strip().lower() for name in text.split(",")]
        if names in ([AUTO], [OFF]):
            return cls.AUTO if names == [AUTO] else cls.OFF
        strange = next((name for name in names if name not in DRAFTERS), None)
        if strange is not None:
            raise BadInput(f"draft {text!r}", _why(strange), f"choose {AUTO}, {OFF}, or among {', '.join(DRAFTERS)}")
        return cls(tuple(name for name in DRAFTERS if name in names))

    @classmethod
    def split(cls, text: str) -> tuple[DraftChoice, str]:
        """A choice among whose names one may be a model's: that model drafts. Returns the choice and the model, "" for
        none. Raises BadInput for two models, and for a name that looks like a drafter's misspelt.
        """
        names = [name.strip() for name in text.split(",")]
        models = [name for name in names if name.lower() not in (AUTO, OFF, *DRAFTERS) and not _misspelt(name)]
        if len(models) > 1:
            raise BadInput(f"draft {text!r}", "it names two models, and one drafts", "name one")
        if not models:
            return cls.parse(text), ""
        others = [name for name in names if name not in models]
        if [name.lower() for name in others] == [AUTO]:
            return cls.AUTO, models[0]
        return cls.parse(",".join([*others, MODEL])), models[0]


DraftChoice.AUTO = DraftChoice((AUTO,))
DraftChoice.OFF = DraftChoice((OFF,))
DraftChoice.LOOKUP = DraftChoice(("lookup",))
DraftChoice.MODEL = DraftChoice((MODEL,))


def _misspelt(name: str) -> bool:
    return not name or bool(difflib.get_close_matches(name.lower(), [AUTO, OFF, *DRAFTERS], n=1, cutoff=0.75))


def _why(name: str) -> str:
    if name in (AUTO, OFF):
        return f"'{name}' stands alone"
    return f"there is no drafter {name!r}"
