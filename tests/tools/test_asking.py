from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edgespec.bench.prompts import Prompt
from edgespec.engine import Engine, GenerateOptions
from edgespec.errors import BadInput, ModelNotFound
from tests.library.toy_card import toy_card
from tools.asking import Asker, load_questions, read_sizes, reported


def test_questions_are_taken_from_every_category_in_turn(questions: Path) -> None:
    assert [(one.id, one.category) for one in load_questions(questions, 10)] == [
        ("1", "tales"),
        ("3", "sums"),
        ("2", "tales"),
    ]
    assert load_questions(questions, 1) == [
        Prompt("1", "tales", "the old man and the river and the old man and the river and the old man")
    ]


@pytest.mark.parametrize("line", ["{", "[]", '{"question_id": 1, "category": "x", "turns": []}', '{"question_id": 1}'])
def test_a_line_that_is_no_question_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"question_id": 1, "category": "x", "turns": ["y"]}\n' + line, encoding="utf-8")
    with pytest.raises(BadInput, match=r"line 2 of .*bad\.jsonl"):
        load_questions(path, 5)


def test_an_answer_comes_with_its_rounds(engine: Engine) -> None:
    asker = Asker(engine)
    prompt = asker.tokens("the dog says")
    run, completion = asker.ask(prompt, GenerateOptions(max_tokens=6))
    assert run.prompt == tuple(prompt)
    assert run.token_ids == completion.token_ids == run.emitted
    assert len(run.rounds) == completion.timings.passes
    assert completion.timings.cached_prompt_tokens == 0
    again, _ = asker.ask(prompt, GenerateOptions(max_tokens=6))
    assert again.token_ids == run.token_ids


def test_a_model_without_a_template_goes_on_with_the_text(engine: Engine) -> None:
    whole = Asker(engine).tokens("the dog says")
    engine.header = replace(engine.header, chat_template=None)
    assert len(Asker(engine).tokens("the dog says")) < len(whole)


def test_the_cards_template_is_the_models(engine: Engine) -> None:
    engine.card = replace(toy_card(b"x"), chat_template="the cat: {{ messages[0].content }}")
    said = b"".join(engine.vocab.piece(token) for token in Asker(engine).tokens("the dog says"))
    assert said.decode() == "the cat: the dog says"


def test_an_error_is_a_sentence_and_an_exit_code() -> None:
    @click.command()
    def fail() -> None:
        with reported():
            raise ModelNotFound("model 'x'", "it is not there", "name another")

    result = CliRunner().invoke(fail)
    assert (result.exit_code, result.stdout) == (ModelNotFound.exit_code, "")
    assert result.stderr == "error: model 'x': it is not there; name another.\n"


def test_ctrl_c_is_no_error() -> None:
    @click.command()
    def stop() -> None:
        with reported():
            raise KeyboardInterrupt

    result = CliRunner().invoke(stop)
    assert (result.exit_code, result.stderr) == (130, "stopped\n")


@pytest.mark.parametrize("text", ["", "two", "1,,2", "0,1"])
def test_sizes_are_counts(text: str) -> None:
    with pytest.raises(BadInput, match="--sizes"):
        read_sizes("--sizes", text)


def test_sizes_are_read() -> None:
    assert read_sizes("--sizes", "1,2, 8") == [1, 2, 8]
