"""How text looks: which colour an accepted guess gets, and what of a model's text may reach a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import click

COLOURS = {"lookup": "green", "suffix": "bright_green", "given": "cyan", "recycle": "yellow", "cascade": "magenta"}
OTHER_COLOURS = ("blue", "bright_red", "bright_blue", "bright_magenta")

# A model may spell escape sequences; on a terminal they could move the cursor or retitle the window.
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t\r"}
_SHOWN = {**_CONTROLS, ord("\r"): None, 0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}


@dataclass(frozen=True, slots=True)
class Look:
    """tints: colour accepted guesses. styled: escape sequences may be written at all."""

    tints: bool
    styled: bool


def choose_look(color: bool | None, environment: Mapping[str, str] = os.environ) -> Look:
    """From --color (True), --no-color (False) or neither. A NO_COLOR that is set and not empty wins over all."""
    styled = color is not False and not environment.get("NO_COLOR")
    return Look(tints=bool(color) and styled, styled=styled)


def colour_of(source: str) -> str:
    """The colour of a drafter's guesses. Drafters without one of their own share the others by name."""
    return COLOURS.get(source) or OTHER_COLOURS[sum(source.encode()) % len(OTHER_COLOURS)]


def tinted(text: str, source: str) -> str:
    """`text` in the colour of the drafter that guessed it; unchanged when nobody did."""
    return click.style(text, fg=colour_of(source)) if source else text


def printable(text: str) -> str:
    """`text` with control characters made visible, so that it can do nothing to a terminal but show."""
    return text.translate(_SHOWN)


def legend(sources: Iterable[str]) -> str:
    """One line that says which colour is whose."""
    return "accepted guesses are tinted: " + ", ".join(tinted(source, source) for source in sources)
