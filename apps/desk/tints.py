"""Which colour is whose: a hue for each drafter, mixed into the ground that the text stands on. Knows no Qt."""

from __future__ import annotations

Rgb = tuple[int, int, int]

# Told apart with the common kinds of colour blindness, too.
HUES: dict[str, Rgb] = {
    "suffix": (0, 158, 115),
    "lookup": (86, 180, 233),
    "given": (0, 114, 178),
    "recycle": (230, 159, 0),
    "model": (204, 121, 167),
    "cascade": (213, 94, 0),
}
OTHERS: tuple[Rgb, ...] = ((240, 228, 66), (148, 103, 189), (127, 127, 127))
# More would make text in the palette's own colour hard to read, on a light ground as on a dark one.
SHARE = 0.38


def hue(source: str) -> Rgb:
    """Drafters without a hue of their own share the others by name."""
    return HUES.get(source) or OTHERS[sum(source.encode()) % len(OTHERS)]


def tint(source: str, ground: Rgb) -> Rgb:
    """The ground behind text that `source` guessed."""
    red, green, blue = (round(SHARE * h + (1.0 - SHARE) * g) for h, g in zip(hue(source), ground, strict=True))
    return red, green, blue
