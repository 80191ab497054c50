"""The prompts that answers are compared on: some of a file's, or a few built-in ones. Knows no engine."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from itertools import chain, zip_longest
from pathlib import Path

from edgespec.bench.prompts import Prompt, load_prompts

_FUNCTION = """def mean(values):
    total = 0
    for value in values:
        total = total + value
    return total / len(values)"""
_MINUTES = (
    "The harbour board met on Tuesday. The harbour board decided to repair the north pier in May and to leave the "
    "south pier as it is. The harbour master will ask three firms for an offer for the north pier."
)

# Several repeat their own words in the answer, so that there is something to draft.
_TEXTS = (
    ("code", f"Add a docstring to this function and repeat the whole function:\n\n{_FUNCTION}"),
    ("code", f"Rename the variable total to result in this function and print all of it:\n\n{_FUNCTION}"),
    ("summary", f"Summarise in two sentences: {_MINUTES}"),
    ("extraction", f"Copy out every sentence about the north pier: {_MINUTES}"),
    ("list", "Write the numbers from one to twenty as words, one per line."),
    ("question", "Why is the sky blue? Answer in three sentences."),
    ("story", "Tell a short story about a lighthouse keeper and a lost cat."),
    ("arithmetic", "A train leaves at 9:40 and arrives at 12:15. How long does it travel? Show each step."),
)


def built_in() -> dict[str, tuple[Prompt, ...]]:
    found: dict[str, tuple[Prompt, ...]] = {}
    for number, (category, text) in enumerate(_TEXTS, start=1):
        found[category] = (*found.get(category, ()), Prompt(str(number), category, text))
    return found


def choose_prompts(path: Path | None, per_category: int | None = None, n: int | None = None) -> list[Prompt]:
    """Up to `per_category` prompts of each category and `n` in all, of a file as for bench or of the built-in ones.

    Raises BadInput for a file that is none.
    """
    return in_turn(built_in() if path is None else load_prompts(path), per_category, n)


def in_turn(prompts: Mapping[str, Seq[Prompt]], per_category: int | None, n: int | None) -> list[Prompt]:
    """The categories are taken in turn, so that few prompts have all of them."""
    taken = chain.from_iterable(zip_longest(*(listed[:per_category] for listed in prompts.values())))
    return [one for one in taken if one is not None][:n]
