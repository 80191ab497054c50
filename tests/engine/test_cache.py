from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.backend.toy import ToyModel
from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.cache import CacheBook
from edgespec.engine.job import Clocked, Job, Request
from edgespec.engine.options import GenerateOptions
from edgespec.events import Notice
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import USUAL_SEQUENCES, Capabilities
from edgespec.text.stream import TextStream
from tests.engine.toy_engine import EngineTarget, SmallVocabulary

LIMITS = Capabilities(n_ctx=100, n_vocab=8, max_rows=4, max_chunk=100, max_leaves=2, can_rollback=True)
FAST, EXACT = GenerateOptions(max_tokens=10), GenerateOptions(max_tokens=10, exact=True)


def request(sequence: int, prompt: list[int], options: GenerateOptions = FAST) -> Request:
    return Request(sequence, True, prompt, options, Answer(CancelToken()))


class Book:
    """A cache book over a target, and answers that are entered in it."""

    def __init__(self, limits: Capabilities = LIMITS, window: int = 0) -> None:
        self.target = EngineTarget(ToyModel(n_vocab=8), limits, window)
        self.book = CacheBook(self.target)
        self.notices: list[Notice] = []

    def read(self, one: Request) -> int:
        """As the worker does: keep, then read all but the last token. Returns how many were kept."""
        kept = self.book.keep_prefix(one, self.notices.append)
        assert self.target.length(one.sequence) == kept
        new = one.prompt[kept:-1]
        if new:
            self.target.extend(one.sequence, np.array(new, np.int32))
            self.book.read(one, len(one.prompt) - 1)
        return kept

    def answer(self, one: Request, *said: int) -> None:
        """The answer as tokens that were all read, the last one and more; the rewind takes them back."""
        widths = (2,) if one.options.exact else ()
        job = Job(one, TextStream(SmallVocabulary()), Clocked(), width_class=widths)
        job.begin_decoding(Law(SamplingSettings()), 10, frozenset())
        job.decoding.accept(list(said), np.array(said[-1:], np.int32))
        self.target.extend(one.sequence, np.array([one.prompt[-1], *said], np.int32))
        self.book.settle(job)
        assert self.target.length(one.sequence) == len(one.prompt) + len(said) - 1


def test_a_prompt_is_read_from_where_it_differs() -> None:
    book = Book()
    assert book.read(request(1, [1, 2, 3, 4])) == 0
    assert book.read(request(1, [1, 2, 3, 4])) == 3  # the last token is decoded, not read
    assert book.read(request(1, [1, 2, 5, 4, 4])) == 2
    assert book.read(request(1, [1, 2, 5])) == 2
    assert book.read(request(1, [6])) == 0
    assert book.notices == []


def test_after_an_answer_all_but_its_last_token_is_cached() -> None:
    book = Book()
    one = request(1, [1, 2, 3])
    book.read(one)
    book.answer(one, 4, 5, 6)
    assert book.read(request(1, [1, 2, 3, 4, 5, 6, 7])) == 5


def test_an_exact_answer_goes_on_only_from_what_exact_ones_left() -> None:
    book = Book()
    one = request(1, [1, 2, 3])
    book.read(one)
    book.answer(one, 4, 5, 6)
    two = request(1, [1, 2, 3, 4, 5, 6, 7], EXACT)
    assert book.read(two) == 0
    book.answer(two, 0, 1)
    three = request(1, [1, 2, 3, 4, 5, 6, 7, 0, 1, 2], EXACT)
    assert book.read(three) == 8
    book.answer(three, 5)
    four = request(1, [1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 5, 5])
    assert book.read(four) == 10  # a fast one takes what there is
    book.answer(four, 6, 6)
    assert book.read(request(1, [1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 5, 5, 6], EXACT)) == 10
    book.read(request(1, [1, 2, 3, 3, 3]))
    assert book.read(request(1, [1, 2, 3, 3, 3, 3], EXACT)) == 3


def test_an_exact_request_has_the_cache_to_itself() -> None:
    book = Book()
    idle(book, 3, 3)
    fast, exact = request(8, [1, 2]), request(9, [1, 2], EXACT)
    assert not book.book.reserve(exact, [fast])
    assert not book.book.reserve(fast, [exact])
    assert book.target.live() == {1, 2}
    assert book.book.reserve(request(2, [1, 1], EXACT), [])
    assert book.target.live() == {2}


def test_a_window_that_cannot_go_back_is_told_once() -> None:
    book = Book(window=3)
    assert book.read(request(1, [1] * 40)) == 0
    assert book.read(request(1, [1] * 20 + [2])) == 0
    assert book.read(request(1, [1] * 40)) == 20
    assert book.read(request(1, [1] * 20 + [2])) == 0
    assert book.notices == [
        Notice("reread", "the model's sliding window cannot go back 19 tokens: reading all again"),
    ]
    assert book.read(request(2, [1] * 40)) == 0
    assert book.read(request(2, [1] * 20 + [2])) == 0
    assert len(book.notices) == 2  # another conversation


def test_a_running_state_that_cannot_go_back_is_told_as_such() -> None:
    book = Book(replace(LIMITS, can_rollback=False))
    book.read(request(1, [1, 2, 3]))
    assert book.read(request(1, [1, 2, 3, 4])) == 2
    assert book.read(request(1, [1, 2, 5])) == 0
    assert [notice.message for notice in book.notices] == [
        "the model's running state cannot go back 1 tokens: reading all again"
    ]


def test_nothing_is_said_of_a_text_that_begins_anew() -> None:
    book = Book(replace(LIMITS, can_rollback=False))
    book.read(request(1, [1, 2, 3]))
    assert book.read(request(1, [4, 5])) == 0
    assert book.notices == []


def idle(book: Book, *sizes: int) -> None:
    """Idle sequences 1, 2, ... with so many cached tokens each."""
    for place, size in enumerate(sizes):
        book.read(request(place + 1, [1] * (size + 1)))


@pytest.mark.parametrize(
    ("sizes", "n_prompt", "live"),
    [
        ((30, 20, 10), 30, {1, 2, 3}),  # 60 idle and 40 needed are all there is
        ((30, 20, 10), 31, {2, 3}),
        ((30, 20, 10), 61, {3}),
        ((30, 20, 10), 90, set()),
        ((1, 1, 1, 1), 2, {2, 3, 4}),
    ],
)
def test_idle_caches_give_way_oldest_first(sizes: tuple[int, ...], n_prompt: int, live: set[int]) -> None:
    book = Book()
    idle(book, *sizes)
    assert book.book.reserve(request(9, [1] * n_prompt), [])
    assert book.target.live() == live


def test_the_oldest_is_who_was_used_last_the_longest_time_ago() -> None:
    book = Book()
    idle(book, 30, 20, 10)
    book.read(request(1, [1] * 31))
    assert book.book.reserve(request(9, [1] * 40), [])
    assert book.target.live() == {1, 3}


def test_its_own_cache_is_not_in_the_way() -> None:
    book = Book()
    idle(book, 90)
    assert book.book.reserve(request(1, [1] * 80), [])
    assert book.target.live() == {1}


def test_a_request_waits_for_those_that_run() -> None:
    book = Book()
    running = [request(1, [1] * 40), request(2, [1] * 20)]  # with their answers 50 and 30
    assert book.book.reserve(request(3, [1] * 10), running)
    assert not book.book.reserve(request(3, [1] * 11), running)
    assert not book.book.reserve(request(2, [1]), running)  # its sequence is busy
    few = [request(sequence, [1]) for sequence in range(LIMITS.max_sequences)]
    assert not book.book.reserve(request(9, [1]), few)
    assert book.book.reserve(request(9, [1]), few[1:])


def test_alone_even_the_largest_may_start() -> None:
    assert Book().book.reserve(request(1, [1] * 99, GenerateOptions(max_tokens=1000)), [])


def test_running_caches_are_never_dropped() -> None:
    book = Book()
    idle(book, 30, 20, 10)
    assert book.book.reserve(request(9, [1] * 25), [request(1, [1] * 31)])
    assert book.target.live() == {1, 3}


@pytest.mark.parametrize("most", [1, 2, 7])
def test_the_target_says_how_many_there_may_be(most: int) -> None:
    book = Book(replace(LIMITS, max_sequences=most))
    idle(book, *[1] * most)
    assert book.book.reserve(request(9, [1]), [])
    assert book.target.live() == set(range(2, most + 1))
    running = [request(sequence, [1]) for sequence in range(20, 20 + most)]
    assert not book.book.reserve(request(9, [1]), running)
    assert book.book.reserve(request(9, [1]), running[1:])
    assert book.target.live() == set()


def test_a_target_of_default_size_has_an_id_for_each_sequence() -> None:
    assert LlamaSettings().max_sequences == LlamaSettings().windowed().n_ids == USUAL_SEQUENCES


def test_a_released_sequence_is_read_anew() -> None:
    book = Book(window=3)
    book.read(request(1, [1] * 40))
    book.book.release(1)
    book.book.release(5)
    assert book.target.live() == set()
    assert book.read(request(1, [1] * 40)) == 0
