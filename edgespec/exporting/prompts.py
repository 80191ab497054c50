"""The prompts whose answers a step model is made and judged by: those of a file, or built-in ones. Knows no model.

What a choice is made by and what it is judged by are different prompts: else the judgement would flatter the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from edgespec.bench.prompts import load_prompts

_JUDGING = (
    "Why is the sky blue? Answer in a short paragraph.",
    "Write a Python function that returns the n-th Fibonacci number, and explain it.",
    "Tell a short story about a lighthouse keeper and a lost cat.",
    "A train leaves at 9:40 and arrives at 12:15. How long does it travel? Show each step.",
    "List ten things to pack for a week of hiking in the mountains.",
    "Explain to a child how a rainbow comes about.",
    "Write a polite e-mail that moves a meeting from Monday to Wednesday.",
    "What is the difference between a virus and a bacterium?",
    "Describe the water cycle in five steps.",
    "Give a recipe for a simple vegetable soup.",
    "Summarise the plot of Romeo and Juliet in one paragraph.",
    "How do I make a good cup of coffee without a machine?",
    "Name the planets of the solar system with one fact about each.",
    "Write a SQL query that counts the orders of each customer, and say how it works.",
    "What should I think of before I adopt a dog?",
    "Explain supply and demand with an example from a market.",
    "Write a dialogue between two friends who plan a surprise party.",
    "What were the main causes of the First World War?",
    "How does a refrigerator keep things cold?",
    "Write a shell script that renames all .txt files of a folder to .md.",
)
_CHOOSING = (
    "What is photosynthesis, and why does it matter?",
    "Write a Python function that checks whether a word is a palindrome.",
    "Tell a short story about a boy who finds a map in an old book.",
    "A shop sells pens at 3 for 2 dollars. What do 12 pens cost? Show each step.",
    "List eight ways to save electricity at home.",
    "Explain how a bicycle stays upright.",
    "Write a thank-you letter to a teacher.",
    "What is the difference between weather and climate?",
    "Describe how bread is made, step by step.",
    "How can I fall asleep more easily?",
    "Name five inventions of the nineteenth century and what they changed.",
    "Write a JavaScript function that reverses the words of a sentence.",
)


@dataclass(frozen=True, slots=True)
class PromptSets:
    """judging: what results are measured on. choosing: what layers and tokens are chosen by."""

    judging: tuple[str, ...]
    choosing: tuple[str, ...]


def prompt_sets(path: Path | None = None) -> PromptSets:
    """Of a file's prompts, its categories in turn, every second one is for choosing. Raises BadInput for a bad file."""
    if path is None:
        return PromptSets(_JUDGING, _CHOOSING)
    categories = load_prompts(path).values()
    texts = [one.text for one in chain.from_iterable(zip_longest(*categories)) if one is not None]
    return PromptSets(tuple(texts[0::2]), tuple(texts[1::2] or texts))
