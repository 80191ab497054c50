"""What every peer is asked: questions in the model's own template, as tokens, made once; and some long ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgespec.backend.settings import LlamaSettings, loaded_alike
from edgespec.bench.prompts import Prompt as Question
from edgespec.engine import Engine, EngineOptions
from edgespec.engine.arrangement import rearranged
from edgespec.errors import BadInput
from edgespec.tune.tuning import Tuning
from tools.asking import Asker, load_questions
from tools.peer_figures import LONG_PROMPT
from tools.peer_rows import Prompt

# Categories whose questions carry passages to read.
PASSAGES = ("rag", "summarization")
# Asked once of a peer that was just started; no question of a benchmark.
WARM_UP = "Say in one sentence what a lighthouse is."
# Beside prompt and answer: a draft may reach beyond the last token.
_SLACK = 64
_ROUNDING = 256


@dataclass(frozen=True, slots=True)
class Arranged:
    """What the engine changes to for texts (prompt and answer) of up to `up_to` tokens."""

    up_to: int
    settings: LlamaSettings


@dataclass(frozen=True, slots=True)
class Asked:
    """The model and what is asked of it. settings: what the engine chose, with the context that everything fits in.

    arranged: ascending; the last one also serves longer texts. tuning: a digest of what was measured.
    """

    model: Path
    prompts: tuple[Prompt, ...]
    warm_up: tuple[int, ...]
    end_tokens: frozenset[int]
    settings: LlamaSettings
    arranged: tuple[Arranged, ...]
    tuning: str


def prepare(model: str | None, threads: int | None, path: Path, n_prompts: int, n_long: int, budget: int) -> Asked:
    """Opens the engine for a moment. Raises BadInput for a file without such questions, and the engine's errors."""
    questions = load_questions(path, n_prompts)
    with Engine.open(model, EngineOptions(threads=threads)) as engine:
        tokens = Asker(engine).tokens
        questions += long_questions(load_questions(path, 1 << 30), n_long, lambda text: len(tokens(text)))
        if not questions:
            raise BadInput(f"{path}", "no question was taken from it", "raise --n-prompts or --n-long")
        prompts = tuple(Prompt(one.id, one.category, tuple(tokens(one.text))) for one in questions)
        n_ctx = context(max(len(one.tokens) for one in prompts), budget)
        settings = replace(engine.settings, n_ctx=n_ctx)
        return Asked(
            engine.header.path,
            prompts,
            tuple(tokens(WARM_UP)),
            engine.vocab.end_tokens,
            settings,
            arrangements(settings, engine.tuning),
            tuning_digest(engine.tuning),
        )


def arrangements(settings: LlamaSettings, tuning: Tuning | None) -> tuple[Arranged, ...]:
    """By length, as the engine does it: it never loads a model anew for other settings. Equal neighbours are one."""
    found: list[Arranged] = []
    for choice in tuning.choices if tuning else ():
        wanted = rearranged(settings, choice.tuned)
        one = Arranged(choice.up_to, wanted if loaded_alike(settings, wanted) else settings)
        if found and found[-1].settings == one.settings:
            found.pop()
        found.append(one)
    return tuple(found) or (Arranged(settings.n_ctx, settings),)


def tuning_digest(tuning: Tuning | None) -> str:
    return hashlib.sha256(tuning.to_text().encode()).hexdigest()[:16] if tuning else "untuned"


def context(longest_prompt: int, budget: int) -> int:
    return -(-(longest_prompt + budget + _SLACK) // _ROUNDING) * _ROUNDING


def long_questions(questions: Sequence[Question], n: int, count: Callable[[str], int]) -> list[Question]:
    """Up to `n` prompts of 900 tokens and more, the categories with passages in turn: a question's own text where that
    is enough, else with the passages of the questions after it in front.
    """
    texts = [question for question in questions if question.category in PASSAGES]
    found: list[Question] = []
    for place, question in enumerate(texts[:n]):
        text = question.text
        for other in (*texts[place + 1 :], *texts[:place]):
            if count(text) >= LONG_PROMPT:
                break
            text = f"{other.text}\n\n{text}"
        if count(text) >= LONG_PROMPT:
            found.append(Question(f"{question.id}-long", f"long {question.category}", text))
    return found
