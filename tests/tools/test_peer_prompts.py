"""Long prompts, the context they need, and what is asked of a real (toy) model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.bench.prompts import Prompt
from edgespec.errors import BadInput
from edgespec.spec.cost import CostTable
from edgespec.tune.tuning import Choice, Tuned, Tuning
from tools.peer_figures import LONG_PROMPT
from tools.peer_prompts import Arranged, arrangements, context, long_questions, prepare, tuning_digest


def words(text: str) -> int:
    return len(text.split())


def question(id_: str, category: str, n_words: int) -> Prompt:
    return Prompt(id_, category, " ".join([id_] * n_words))


def test_the_context_holds_prompt_answer_and_a_draft() -> None:
    assert context(900, 60) == 1024
    assert context(961, 0) == 1280


def test_a_question_that_is_long_enough_stays_as_it_is() -> None:
    own = question("a", "rag", LONG_PROMPT)
    assert long_questions([question("z", "qa", 2000), own], 5, words) == [Prompt("a-long", "long rag", own.text)]


def test_a_short_one_gets_passages_in_front_and_is_asked_last() -> None:
    texts = [question("a", "rag", 400), question("b", "summarization", 400), question("c", "rag", 400)]
    found = long_questions(texts, 2, words)
    assert [one.id for one in found] == ["a-long", "b-long"]
    for one in found:
        assert words(one.text) >= LONG_PROMPT
    assert found[0].text.split("\n\n") == [texts[2].text, texts[1].text, texts[0].text]
    assert len({one.text for one in found}) == 2


def test_without_enough_passages_there_is_no_long_prompt() -> None:
    assert long_questions([question("a", "rag", 10), question("b", "rag", 10)], 2, words) == []


def test_questions_become_tokens_once(toy: Path, questions: Path) -> None:
    asked = prepare(str(toy), 1, questions, 2, 0, 20)
    assert [(prompt.id, prompt.category) for prompt in asked.prompts] == [("1", "tales"), ("3", "sums")]
    assert all(prompt.tokens for prompt in asked.prompts)
    assert asked.warm_up not in [prompt.tokens for prompt in asked.prompts]
    assert asked.settings.n_ctx == context(max(len(prompt.tokens) for prompt in asked.prompts), 20)
    assert asked.settings.n_threads == 1
    assert asked.end_tokens
    assert asked.model == toy
    assert asked.arranged == (Arranged(asked.settings.n_ctx, asked.settings),)
    assert asked.tuning == "untuned"


def test_settings_follow_the_length_as_the_engine_does_it() -> None:
    table = CostTable((0,), (1,), ((0.01,),))
    off = LlamaSettings(n_ctx=512, n_threads=2)
    on, repacked = replace(off, flash_attention=FlashAttention.ON), replace(off, extra_buffers=False)
    chosen = ((100, off), (200, off), (400, on), (600, repacked), (900, off))
    choices = tuple(Choice(up_to, Tuned(settings, table, table)) for up_to, settings in chosen)
    measured = Tuning(choices, (0,), (), off, 1.0, (), False, "2026-01-01")
    here = replace(off, n_ctx=2048)
    # Without repacking the model would have to be loaded anew, so the engine stays as it is.
    assert arrangements(here, measured) == (
        Arranged(200, here),
        Arranged(400, replace(on, n_ctx=2048)),
        Arranged(900, here),
    )
    assert arrangements(here, None) == (Arranged(2048, here),)
    assert tuning_digest(measured) == tuning_digest(replace(measured)) != tuning_digest(replace(measured, choices=()))
    assert tuning_digest(None) == "untuned"


def test_long_prompts_come_after_the_others(toy: Path, tmp_path: Path) -> None:
    path = tmp_path / "passages.jsonl"
    texts = {"rag": "the old man and the river " * 200, "qa": "what does the dog say"}
    rows = [{"question_id": i, "category": c, "turns": [texts[c]]} for i, c in enumerate(texts)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    asked = prepare(str(toy), 1, path, 2, 1, 20)
    assert [prompt.category for prompt in asked.prompts] == ["rag", "qa", "long rag"]
    assert len(asked.prompts[-1].tokens) >= LONG_PROMPT


def test_no_question_at_all(toy: Path, questions: Path) -> None:
    with pytest.raises(BadInput, match="--n-prompts"):
        prepare(str(toy), 1, questions, 0, 3, 20)
