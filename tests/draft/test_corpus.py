from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft import corpus as module
from edgespec.draft.corpus import Corpus, TextLog
from edgespec.draft.suffix_tree import query_of
from tests.draft.fake import prompt_of

HASH = "ab" * 32
token_texts = st.lists(st.lists(st.integers(0, 2**31 - 2), min_size=1, max_size=12), max_size=8)


def texts_in(corpus: Corpus) -> list[list[int]]:
    return [text.tolist() for index in corpus.snapshot() for text in index.texts]


def read(log: TextLog) -> list[list[int]]:
    return [text.tolist() for text in log.read()]


def filled(folder: Path, texts: Sequence[Sequence[int]]) -> TextLog:
    log = TextLog(folder, HASH)
    for text in texts:
        assert log.append(prompt_of(text))
    return log


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log")


# -- in memory --------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(token_texts, st.integers(1, 40))
def test_the_oldest_texts_make_room_and_the_newest_stay_whole_and_in_order(texts: list[list[int]], cap: int) -> None:
    corpus = Corpus(max_tokens=cap)
    for i, text in enumerate(texts):
        corpus.add(text)
        kept = texts_in(corpus)
        said = [text[-cap:] for text in texts[: i + 1]]
        assert kept == said[len(said) - len(kept) :]
        assert kept
        assert corpus.n_tokens == sum(map(len, kept)) <= cap
        assert corpus.n_texts == len(kept)


def test_nothing_is_dropped_before_the_room_is_used_up() -> None:
    corpus = Corpus(max_tokens=100)
    for i in range(10):
        corpus.add([i] * 10)
    assert corpus.n_tokens == 100
    corpus.add([10])
    assert texts_in(corpus)[-1] == [10]
    assert 100 * 3 // 4 <= corpus.n_tokens <= 100 * 7 // 8


@settings(deadline=None)
@given(token_texts, st.integers(1, 40))
def test_texts_given_at_once_are_kept_like_texts_added(texts: list[list[int]], cap: int) -> None:
    corpus = Corpus(max_tokens=cap)
    corpus.include(texts)
    kept = texts_in(corpus)
    said = [text[-cap:] for text in texts]
    assert kept == said[len(said) - len(kept) :]
    assert corpus.n_tokens <= cap


def test_there_are_few_indexes_however_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST_INDEX", 64)
    corpus = Corpus(max_tokens=400)
    for i in range(100):
        corpus.add([i, i + 1, i + 2, i + 3])
        assert len(corpus.snapshot()) <= 400 // 32 + 5
        assert all(index.n_tokens <= 64 for index in corpus.snapshot())
    corpus.include([[7] * 200, [8] * 3])
    assert texts_in(corpus)[-2:] == [[7] * 200, [8] * 3]


def test_what_a_request_holds_stays_as_it_was_and_goes_with_it() -> None:
    corpus = Corpus(max_tokens=20)
    corpus.add(list(range(20)))
    held = corpus.snapshot()
    watched = weakref.ref(held[0])
    corpus.add([50] * 20)
    assert texts_in(corpus) == [[50] * 20]
    found = held[0].longest(query_of([3, 4, 5]))
    assert found is not None
    assert found.length == 3
    del held, found
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize("bad", [[-1], [5, -7, 5]])
def test_negative_tokens_are_refused_and_change_nothing(bad: list[int]) -> None:
    corpus = Corpus()
    with pytest.raises(ValueError, match="negative"):
        corpus.add(bad)
    with pytest.raises(ValueError, match="negative"):
        corpus.include([[1], bad])
    corpus.add([])
    assert corpus.n_texts == 0


# -- on disk ----------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(token_texts)
def test_added_texts_are_there_the_next_time(folder: Path, texts: list[list[int]]) -> None:
    log = TextLog(folder, HASH)
    log.path.unlink(missing_ok=True)
    corpus = Corpus(log=log)
    for text in texts:
        corpus.add(text)
    corpus.include([[1, 2, 3]])
    assert corpus.n_unsaved == 0
    again = TextLog(folder, HASH)
    assert texts_in(Corpus(log=again)) == texts
    assert not again.damaged


@settings(deadline=None, max_examples=60)
@given(token_texts.filter(bool), st.data())
def test_a_file_cut_anywhere_keeps_the_whole_texts_before_the_cut_and_is_repaired_by_the_next(
    folder: Path, texts: list[list[int]], data: st.DataObject
) -> None:
    TextLog(folder, HASH).path.unlink(missing_ok=True)
    log = filled(folder, texts)
    raw = log.path.read_bytes()
    log.path.write_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    kept = read(log)
    assert kept == texts[: len(kept)]
    assert len(kept) < len(texts)
    corpus = Corpus(log=TextLog(folder, HASH))
    corpus.add([9, 9, 9])
    again = TextLog(folder, HASH)
    assert read(again) == [*kept, [9, 9, 9]]
    assert not again.damaged


@settings(deadline=None, max_examples=100)
@given(token_texts.filter(bool), st.data())
def test_a_changed_byte_costs_one_text_at_most_and_never_invents_one(
    folder: Path, texts: list[list[int]], data: st.DataObject
) -> None:
    TextLog(folder, HASH).path.unlink(missing_ok=True)
    log = filled(folder, texts)
    raw = bytearray(log.path.read_bytes())
    n_header = len(raw) - sum(12 + 4 * len(text) for text in texts)
    place = data.draw(st.integers(n_header, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    log.path.write_bytes(raw)
    kept = read(log)
    assert log.damaged
    starts = np.cumsum([n_header, *(12 + 4 * len(text) for text in texts)])
    hit = int(np.searchsorted(starts, place, side="right")) - 1
    assert kept == texts[:hit] + texts[hit + 1 :]


def test_a_mark_inside_a_text_starts_no_text(tmp_path: Path) -> None:
    mark = int.from_bytes(module._MARK, "little")
    texts = [[mark, 2, 5, 5, 5], [mark] * 4]
    log = filled(tmp_path, texts)
    assert read(log) == texts
    log.path.write_bytes(log.path.read_bytes().replace(module._MARK, b"xxxx", 1))
    assert read(log) == texts[1:]


def test_a_damaged_head_of_a_record_does_not_hide_the_texts_behind(tmp_path: Path) -> None:
    log = filled(tmp_path, [[1] * 5, [2] * 5, [3] * 5])
    raw = log.path.read_bytes()
    log.path.write_bytes(raw.replace(module._record(prompt_of([2] * 5))[:9], b"x", 1))
    assert read(log) == [[1] * 5, [3] * 5]


@pytest.mark.parametrize("n_bytes", [1, 5, 11, 15])
def test_a_text_appended_behind_a_torn_one_is_found(tmp_path: Path, n_bytes: int) -> None:
    log = filled(tmp_path, [[1] * 5])
    torn, whole = module._record(prompt_of([2] * 5)), module._record(prompt_of([3] * 5))
    log.path.write_bytes(log.path.read_bytes() + torn[:n_bytes] + whole)
    assert read(log) == [[1] * 5, [3] * 5]


def test_another_vocabulary_has_another_file_and_a_file_of_its_name_is_not_read(tmp_path: Path) -> None:
    filled(tmp_path, [[1, 2]])
    other = TextLog(tmp_path, "cd" * 32)
    assert read(other) == []
    assert not other.damaged
    same_name = TextLog(tmp_path, HASH[:16] + "00" * 24)
    assert read(same_name) == []
    assert same_name.damaged
    assert same_name.append(prompt_of([5]))
    assert read(same_name) == [[5]]


def test_the_file_is_written_anew_when_most_of_it_is_dropped_texts(tmp_path: Path) -> None:
    log = TextLog(tmp_path, HASH)
    corpus = Corpus(max_tokens=50, log=log)
    for i in range(60):
        corpus.add([i] * 10)
        assert log.n_bytes <= 2 * 4 * 50
    assert texts_in(corpus)[-1] == read(log)[-1] == [59] * 10
    assert [path.name for path in tmp_path.iterdir()] == [log.path.name]


def test_what_another_process_added_survives_a_rewrite(tmp_path: Path) -> None:
    mine, theirs = (Corpus(max_tokens=50, log=TextLog(tmp_path, HASH)) for _ in range(2))
    theirs.add([7] * 10)
    for i in range(2):
        mine.add([i] * 10)
    assert read(TextLog(tmp_path, HASH)) == [[7] * 10, [0] * 10, [1] * 10]


def test_a_disk_that_refuses_is_counted_and_the_texts_are_used_all_the_same(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    corpus = Corpus(log=TextLog(blocked, HASH))
    corpus.add([1, 2, 3])
    assert corpus.n_unsaved == 1
    assert texts_in(corpus) == [[1, 2, 3]]
    log = TextLog(tmp_path, HASH)
    log.path.mkdir()
    corpus = Corpus(log=log)
    corpus.add([1, 2, 3])
    assert corpus.n_unsaved == 1
    assert not log.rewrite([prompt_of([1])])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["file", log.path.name])


def test_only_the_user_may_read_the_file(tmp_path: Path) -> None:
    """Past answers are private. Windows keeps a user's folders private by itself and knows no such bits."""
    mode = filled(tmp_path, [[1, 2]]).path.stat().st_mode
    assert os.name == "nt" or mode & 0o077 == 0


def test_reading_writes_nothing(tmp_path: Path) -> None:
    Corpus(log=TextLog(tmp_path / "new", HASH))
    assert list(tmp_path.iterdir()) == []
