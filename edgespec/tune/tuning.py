"""What tuning found: engine settings by context length, each with the measured cost of its passes.

Plain data that becomes text and comes back. Measures nothing, stores nothing, runs no model.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from edgespec.backend.settings import LlamaSettings
from edgespec.errors import BadInput
from edgespec.spec.cost import CostTable


@dataclass(frozen=True, slots=True)
class Tuned:
    """One way to run the model. `settings.n_ctx` is what it was measured with and means nothing to others.

    table: passes with `settings.n_threads`. alone: with one thread, for when other programs need the cores; the same
    table when `n_threads` is 1.
    """

    settings: LlamaSettings
    table: CostTable
    alone: CostTable


@dataclass(frozen=True, slots=True)
class Choice:
    """The best way for texts (prompt and answer) of up to `up_to` tokens."""

    up_to: int
    tuned: Tuned


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tried setting. plain_seconds: a pass of one row at the tuning's contexts, the shortest first. A setting that
    was dropped has fewer of them, or none, and `fate` says why in a few words ("died: ...", "clearly slower", "out of
    time"); it is "" for one that was measured at all of them.
    """

    settings: LlamaSettings
    plain_seconds: tuple[float, ...]
    fate: str = ""


@dataclass(frozen=True, slots=True)
class Tuning:
    """choices: ascending by `up_to`; the last one also serves longer texts. contexts: tokens of context measured at.

    defaults: the library's own settings, one of the candidates. plain_speedup_over_defaults: at the shortest context.
    width_class: the cheapest class of bitwise-equal widths for exact answers, () if they were not fully compared.
    is_partial: the time cap cut it short. measured_on: ISO date and time.
    """

    choices: tuple[Choice, ...]
    contexts: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    defaults: LlamaSettings
    plain_speedup_over_defaults: float
    width_class: tuple[int, ...]
    is_partial: bool
    measured_on: str

    def for_length(self, n_tokens: int) -> Tuned:
        """The best way for a text of so many tokens, prompt and answer together."""
        return next((one.tuned for one in self.choices if n_tokens <= one.up_to), self.choices[-1].tuned)

    def to_text(self) -> str:
        return json.dumps(
            {
                "choices": [_choice_fields(one) for one in self.choices],
                "contexts": self.contexts,
                "candidates": [[one.settings.to_json(), one.plain_seconds, one.fate] for one in self.candidates],
                "defaults": self.defaults.to_json(),
                "speedup": self.plain_speedup_over_defaults,
                "width_class": self.width_class,
                "partial": self.is_partial,
                "measured_on": self.measured_on,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Tuning:
        """The tuning that `to_text` wrote. Raises ValueError for any other text."""
        try:
            raw = json.loads(text)
            choices = tuple(_read_choice(*one) for one in raw["choices"])
            if not choices:
                raise ValueError("a tuning without a choice")
            return cls(
                choices=choices,
                contexts=tuple(map(int, raw["contexts"])),
                candidates=tuple(_read_candidate(*one) for one in raw["candidates"]),
                defaults=read_settings(raw["defaults"]),
                plain_speedup_over_defaults=float(raw["speedup"]),
                width_class=tuple(map(int, raw["width_class"])),
                is_partial=bool(raw["partial"]),
                measured_on=str(raw["measured_on"]),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this is no tuning: {error!r}") from error


def read_settings(text: str) -> LlamaSettings:
    """What `LlamaSettings.to_json` wrote. Raises ValueError for settings that cannot be, as in a damaged record."""
    try:
        read = LlamaSettings.from_json(text)
    except (BadInput, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"these are no settings: {error}") from error
    usual = asdict(LlamaSettings())
    for name, value in asdict(read).items():
        if type(value) is not type(usual[name]):
            raise ValueError(f"these are no settings: {name} is {value!r}")
    return read


def _choice_fields(one: Choice) -> list[int | str]:
    tuned = one.tuned
    return [one.up_to, tuned.settings.to_json(), tuned.table.to_text(), tuned.alone.to_text()]


def _read_choice(up_to: int, settings: str, table: str, alone: str) -> Choice:
    read = Tuned(read_settings(settings), CostTable.from_text(table), CostTable.from_text(alone))
    return Choice(int(up_to), read)


def _read_candidate(settings: str, plain_seconds: list[float], fate: str) -> Candidate:
    return Candidate(read_settings(settings), tuple(map(float, plain_seconds)), str(fate))
