"""What `/set` can change of the way answers are made. Names are those of the command line's options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from edgespec.engine import DraftChoice, GenerateOptions
from edgespec.errors import BadInput
from edgespec.spec.law import SamplingSettings

Change = Callable[[GenerateOptions, str], GenerateOptions]


@dataclass(frozen=True, slots=True)
class Setting:
    """`show` gives the value as text, `change` makes options with another, from text. `change` raises BadInput."""

    show: Callable[[GenerateOptions], str]
    change: Change


def change(options: GenerateOptions, name: str, text: str) -> GenerateOptions:
    """Options with one value changed. Raises BadInput for a name that is none and a value that cannot be."""
    return find(name).change(options, text)


def find(name: str) -> Setting:
    setting = SETTINGS.get(normalised(name))
    if setting is None:
        raise BadInput(f"setting {name!r}", "there is none of this name", f"the names are {', '.join(SETTINGS)}")
    return setting


def normalised(name: str) -> str:
    """`--top-p` and `top-p` are `top_p`."""
    return name.lstrip("-").replace("-", "_").lower()


def read_switch(name: str, text: str) -> bool:
    """'on' or 'off'. Raises BadInput."""
    if text.lower() in ("on", "true", "yes", "1"):
        return True
    if text.lower() in ("off", "false", "no", "0"):
        return False
    raise BadInput(f"{name} {text!r}", "it can be on or off", f"write '{name} on' or '{name} off'")


def read_draft(text: str) -> DraftChoice:
    """Raises BadInput."""
    return DraftChoice.parse(text)


def _number(name: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        return kind(text)
    except ValueError:
        meaning = "a whole number" if kind is int else "a number"
        raise BadInput(f"{name} {text!r}", f"it must be {meaning}", "give one, such as 1") from None


def _sampling(name: str, kind: type[int] | type[float]) -> Setting:
    def changed(options: GenerateOptions, text: str) -> GenerateOptions:
        value: Any = _number(name, text, kind)
        return replace(options, sampling=replace(options.sampling, **{name: value}))

    return Setting(lambda options: f"{getattr(options.sampling, name)}", changed)


def _max_tokens(options: GenerateOptions, text: str) -> GenerateOptions:
    return replace(options, max_tokens=int(_number("max_tokens", text, int)))


_FLOATS = ("temperature", "top_p", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty")
_INTEGERS = ("top_k", "penalty_last_n", "seed")

SETTINGS: dict[str, Setting] = {
    **{name: _sampling(name, float) for name in _FLOATS},
    **{name: _sampling(name, int) for name in _INTEGERS},
    "max_tokens": Setting(lambda options: str(options.max_tokens), _max_tokens),
    "exact": Setting(
        lambda options: "on" if options.exact else "off",
        lambda options, text: replace(options, exact=read_switch("exact", text)),
    ),
    "verify": Setting(lambda options: options.verify, lambda options, text: replace(options, verify=text.lower())),
    "draft": Setting(
        lambda options: options.draft.value,
        lambda options, text: replace(options, draft=read_draft(text)),
    ),
}


def summary(sampling: SamplingSettings) -> str:
    """The sampling in force, in words: what differs from plain greedy decoding."""
    if sampling.temperature == 0:
        words = ["temperature 0"]
    else:
        words = [f"temperature {sampling.temperature:g}", f"seed {sampling.seed}"]
        words += [f"top-p {sampling.top_p:g}"] if sampling.top_p < 1 else []
        words += [f"top-k {sampling.top_k}"] if sampling.top_k else []
        words += [f"min-p {sampling.min_p:g}"] if sampling.min_p else []
    penalties = (("repeat", 1.0), ("frequency", 0.0), ("presence", 0.0))
    for name, neutral in penalties:
        strength = getattr(sampling, f"{name}_penalty")
        words += [f"{name} penalty {strength:g}"] if strength != neutral else []
    return ", ".join(words)
