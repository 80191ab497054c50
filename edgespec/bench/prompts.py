"""The prompts of a measurement: read from JSON lines, and put into an order of which any beginning is a fair sample.

Knows no model. Each line is an object with `category` and either `turns`, of which the first is asked, or `prompt`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import BadInput

_FORM = "give a file of JSON lines with 'category' and 'turns' or 'prompt'"


@dataclass(frozen=True, slots=True)
class Prompt:
    """`id` is unlike any other in the file."""

    id: str
    category: str
    text: str


# The prompts of each category, in the order in which they are taken.
Prompts = dict[str, tuple[Prompt, ...]]


def load_prompts(path: Path) -> Prompts:
    """All prompts of a file, each category in the order of `spread`. Raises BadInput, which names the line."""
    found: dict[str, list[Prompt]] = {}
    seen: set[str] = set()
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        prompt = _prompt(path, number, line)
        if prompt.id in seen:
            raise BadInput(
                f"line {number} of {path}", f"the id {prompt.id!r} is there twice", "give every prompt its own"
            )
        seen.add(prompt.id)
        found.setdefault(prompt.category, []).append(prompt)
    if not found:
        raise BadInput(f"{path}", "there is no prompt in it", _FORM)
    return {category: tuple(prompts[i] for i in spread(len(prompts))) for category, prompts in found.items()}


def spread(n: int) -> list[int]:
    """0..n-1 in an order of which every beginning lies evenly over the whole: the radical inverse in base 2.

    So a larger sample holds each smaller one, and going on with a measurement asks for more of the same.
    """
    n_bits = max(1, (n - 1).bit_length())
    flipped = (int(f"{i:0{n_bits}b}"[::-1], 2) for i in range(1 << n_bits))
    return [i for i in flipped if i < n]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}", str(error), "give a file of UTF-8 text that can be read") from error


def _prompt(path: Path, number: int, line: str) -> Prompt:
    try:
        raw = json.loads(line)
        text = raw["prompt"] if "prompt" in raw else raw["turns"][0]
        prompt = Prompt(str(raw.get("question_id", raw.get("id", number))), str(raw["category"]), text)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"line {number} of {path}", f"it is no prompt ({error!r})", _FORM) from error
    if not isinstance(text, str) or not text.strip():
        raise BadInput(f"line {number} of {path}", "its text is empty", _FORM)
    return prompt
