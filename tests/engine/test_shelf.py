from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.choice import DraftChoice
from edgespec.draft.corpus import Corpus
from edgespec.engine import Engine, EngineOptions, GenerateOptions
from edgespec.engine.shelf import keep_answer, open_shelf
from edgespec.errors import BadInput
from edgespec.events import Completion, Notice
from tests.text.toy_vocab import ToyVocabulary
from tools.make_toy_model import write_toy_model

VOCAB = ToyVocabulary()


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


def shelf(*paths: Path, remember: bool = False, notices: list[Notice] | None = None) -> Corpus | None:
    return open_shelf(paths, remember, VOCAB, "ab" * 32, ([] if notices is None else notices).append)


def test_without_texts_there_is_none() -> None:
    assert shelf() is None


def test_files_and_folders_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("abc", encoding="utf-8")
    (folder / "deep" / "b.md").write_text("defg", encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    (folder / "nul.txt").write_bytes(b"a\0b")
    (folder / ".hidden").write_text("secret", encoding="utf-8")
    found = shelf(folder)
    assert found is not None
    assert (found.n_texts, found.n_tokens) == (2, 7)
    single = tmp_path / "one.txt"
    single.write_text("x" * 250_000, encoding="utf-8")
    long = shelf(single)
    assert long is not None
    assert (long.n_texts, long.n_tokens) == (3, 250_000)


@pytest.mark.parametrize(
    ("content", "why"), [(b"\xff\xfe\x00", "it is no text in UTF-8"), (None, "there is no such file or folder")]
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "strange"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=rf"--corpus .*strange: {why}"):
        shelf(path)


def test_answers_are_kept_with_the_end_of_their_prompt() -> None:
    first = shelf(remember=True)
    assert first is not None
    keep_answer(first, list(range(20)), tuple(range(40, 60)))
    keep_answer(first, list(range(20)), (1, 2, 3))
    again = shelf(remember=True)
    assert again is not None
    assert (again.n_texts, again.n_tokens) == (1, 8 + 20)


def test_a_damaged_log_is_said_and_used_as_far_as_it_is_whole(tmp_path: Path) -> None:
    first = shelf(remember=True)
    assert first is not None
    keep_answer(first, [1], tuple(range(40, 60)))
    (path,) = (tmp_path / "home").rglob("*.log")
    path.write_bytes(path.read_bytes() + b"rubbish")
    notices: list[Notice] = []
    again = shelf(remember=True, notices=notices)
    assert again is not None
    assert again.n_texts == 1
    assert [one.code for one in notices] == ["records-rebuilt"]


def told(engine: Engine, prompt: str, draft: str) -> Completion:
    options = GenerateOptions(max_tokens=40, draft=DraftChoice.parse(draft))
    answer = engine.complete(prompt, options)
    for _ in answer:
        pass
    return answer.completion()


def test_an_engine_that_remembers_drafts_its_own_answer_the_second_time(tmp_path: Path) -> None:
    model = write_toy_model(tmp_path / "toy.gguf", seed=3)
    options = EngineOptions(ctx_size=512, threads=1, remember=True)
    with Engine.open(model, options) as engine:
        first = told(engine, "the old man and his dog", "suffix")
    with Engine.open(model, options) as engine:
        second = told(engine, "the old man and his dog", "suffix")
    assert second.token_ids == first.token_ids
    assert second.timings.passes < 0.5 * first.timings.passes
    with Engine.open(model, EngineOptions(ctx_size=512, threads=1)) as engine:
        assert told(engine, "the old man and his dog", "suffix").timings.passes == first.timings.passes
