"""Numbers of blocks as people write them: `0-9,12,20-29`."""

from __future__ import annotations

import re
from itertools import groupby

from edgespec.errors import BadInput

_PART = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)


def parse_layers(text: str) -> tuple[int, ...]:
    """Ascending, each once. Raises BadInput."""
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        first = int(match[1]) if match else 0
        last = int(match[2] or first) if match else -1
        if last < first:
            why = f"{part.strip()!r} is no number of a layer and no range of them"
            raise BadInput(f"--layers {text}", why, "give all, auto, or a list such as 0-9,12,20-29")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def format_layers(layers: tuple[int, ...]) -> str:
    """The shortest text that `parse_layers` reads as these, which ascend."""
    runs = [[layer for _, layer in run] for _, run in groupby(enumerate(layers), lambda pair: pair[1] - pair[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
