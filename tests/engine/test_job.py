"""A job's text is that of its tokens, however rounds group them; the plain twin has one token to a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.job import Clocked, Job, Request
from edgespec.engine.options import GenerateOptions
from edgespec.errors import EngineFailure
from edgespec.events import Completion, Finish, Notice, Piece, RoundReport, TokenScore
from edgespec.spec.law import Law, SamplingSettings
from edgespec.text.stream import TextStream
from tests.engine.toy_engine import END, PIECES, SILENT, Copier, SmallVocabulary, answered, plain_answer
from tests.spec.plain_decoding import Plain

VOCAB = SmallVocabulary()
TOKENS = st.integers(0, len(PIECES) - 1)
STOPS = st.lists(st.text("abé �", min_size=1, max_size=3), max_size=3).map(tuple)


@dataclass(frozen=True, slots=True)
class Played:
    completion: Completion
    pieces: tuple[Piece, ...]
    tokens: tuple[int, ...]  # of the state, without the prompt


def job_of(max_tokens: int, stop: tuple[str, ...] = (), answer: Answer | None = None, n_top: int | None = None) -> Job:
    options = GenerateOptions(max_tokens=max_tokens, stop=stop, n_top_logprobs=n_top)
    request = Request(0, False, [1, 2], options, answer or Answer(CancelToken()))
    job = Job(request, TextStream(VOCAB, stop), Clocked())
    job.begin_decoding(Law(SamplingSettings()), max_tokens, frozenset({END}))
    return job


def report_of(tokens: Sequence[int], sources: Sequence[str] = ()) -> RoundReport:
    return RoundReport(1, 0, 0, 0, tuple(tokens), tuple(sources) or ("",) * len(tokens), 0.0, 0.0, 0.0)


def absorb(job: Job, tokens: Sequence[int], sources: Sequence[str] = ()) -> None:
    if job.decoding.scorer is not None:  # a score that tells its place among all tokens
        n_before = job.decoding.n_output
        job.decoding.scorer.scores += [TokenScore(token, -float(n_before + i)) for i, token in enumerate(tokens)]
    job.decoding.accept(list(tokens), np.array(tokens[-1:], np.int32))
    job.absorb(report_of(tokens, sources))


def play(job: Job, rounds: Sequence[Sequence[int]]) -> Played:
    for tokens in rounds:
        if job.finish is None:
            absorb(job, tokens)
    job.flush()
    completion = job.completion(job.finish or Finish.CANCELLED)
    job.request.answer.put(completion)
    return Played(completion, tuple(job.request.answer), tuple(job.decoding.tokens[2:]))


def grouped(tokens: Sequence[int], cuts: Sequence[int]) -> list[Sequence[int]]:
    """Rounds of the sizes `cuts`, over and over."""
    rounds: list[Sequence[int]] = []
    start = 0
    while start < len(tokens):
        size = cuts[len(rounds) % len(cuts)]
        rounds.append(tokens[start : start + size])
        start += size
    return rounds


def up_to_the_end(tokens: Sequence[int]) -> list[int]:
    """An end token is the last one: the loop sees to it."""
    return list(tokens[: tokens.index(END) + 1]) if END in tokens else list(tokens)


@settings(max_examples=3000)
@given(st.lists(TOKENS, min_size=1, max_size=16), st.lists(st.integers(1, 7), min_size=1, max_size=4), STOPS)
def test_rounds_do_not_show_in_the_answer(drawn: list[int], cuts: list[int], stop: tuple[str, ...]) -> None:
    tokens = up_to_the_end(drawn)
    drafted = play(job_of(len(tokens), stop), grouped(tokens, cuts))
    plain = play(job_of(len(tokens), stop), grouped(tokens, [1]))
    assert answered(drafted.completion) == answered(plain.completion)
    assert drafted.tokens == plain.tokens
    assert drafted.pieces == plain.pieces
    finish = Finish.STOP if tokens[-1] == END else Finish.LENGTH
    assert answered(drafted.completion) == plain_answer(VOCAB, Plain(tuple(tokens), finish), stop)


@settings(max_examples=300)
@given(st.lists(TOKENS, min_size=1, max_size=16), STOPS)
def test_the_pieces_are_the_answer(drawn: list[int], stop: tuple[str, ...]) -> None:
    tokens = up_to_the_end(drawn)
    played = play(job_of(len(tokens), stop), [tokens])
    assert "".join(piece.text for piece in played.pieces) == played.completion.text
    assert [token for piece in played.pieces for token in piece.token_ids] == list(played.completion.token_ids)
    assert played.completion.usage.completion_tokens == len(played.completion.token_ids)


@settings(max_examples=300)
@given(st.lists(TOKENS, min_size=1, max_size=16), st.lists(st.integers(1, 7), min_size=1, max_size=4), STOPS)
def test_every_token_of_an_answer_has_its_score_and_no_other(
    drawn: list[int], cuts: list[int], stop: tuple[str, ...]
) -> None:
    tokens = up_to_the_end(drawn)
    played = play(job_of(len(tokens), stop, n_top=0), grouped(tokens, cuts))
    given = played.completion.token_ids
    assert played.completion.scores == tuple(TokenScore(token, -float(i)) for i, token in enumerate(given))
    assert tuple(one for piece in played.pieces for one in piece.scores) == played.completion.scores
    for piece in played.pieces:
        assert tuple(one.token_id for one in piece.scores) == piece.token_ids


def test_nothing_is_scored_that_was_not_asked_for() -> None:
    job = job_of(9)
    assert job.decoding.scorer is None
    played = play(job, [[0, 1]])
    assert played.completion.scores == ()
    assert all(piece.scores == () for piece in played.pieces)
    asked = job_of(9, n_top=3)
    assert asked.decoding.scorer is not None
    assert asked.decoding.scorer.n_top == 3


@settings(max_examples=500)
@given(
    st.lists(TOKENS, min_size=1, max_size=16),
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    STOPS,
    st.integers(1, 6),
)
def test_a_callback_stops_it_at_the_same_token(
    drawn: list[int], cuts: list[int], stop: tuple[str, ...], n_wanted: int
) -> None:
    tokens = up_to_the_end(drawn)

    def stopped(rounds: Sequence[Sequence[int]]) -> tuple[Played, list[Piece]]:
        seen: list[Piece] = []

        def take(piece: Piece) -> bool:
            seen.append(piece)
            return len(seen) < n_wanted

        return play(job_of(len(tokens), stop, Answer(CancelToken(), take)), rounds), seen

    drafted, seen = stopped(grouped(tokens, cuts))
    assert (drafted, seen) == stopped(grouped(tokens, [1]))
    assert len(seen) <= n_wanted


def test_a_stop_string_ends_it_in_mid_round() -> None:
    job = job_of(9, ("b",))
    absorb(job, [0, 0, 2, 0, 0])
    assert (job.text, job.token_ids, job.finish) == ("aaa", [0, 0, 2], Finish.STOP)
    assert job.decoding.tokens == [1, 2, 0, 0, 2]


def test_a_stop_string_that_comes_to_light_at_the_end_is_why_it_ended() -> None:
    # After "b a" a longer stop might still be under way, so "a" waits for its verdict until the limit.
    job = job_of(3, ("a", "b ab"))
    absorb(job, [1, 5, 0])
    assert job.finish is Finish.LENGTH
    job.flush()
    assert (job.text, job.finish) == ("b ", Finish.STOP)


def test_sources_go_with_the_pieces() -> None:
    job = job_of(9)
    absorb(job, [0, 1, 5], ["lookup", "", "given"])
    job.request.answer.put(job.completion(Finish.STOP))
    assert [piece.source for piece in job.request.answer] == ["lookup", "", "given"]


def test_silent_tokens_belong_to_the_answer() -> None:
    played = play(job_of(3), [[0, SILENT, SILENT]])
    assert (played.completion.text, played.completion.token_ids) == ("a", (0, SILENT, SILENT))
    assert played.pieces[-1] == Piece("", (SILENT, SILENT), "")


def test_the_end_token_does_not() -> None:
    played = play(job_of(9), [[0, END]])
    assert (played.completion.token_ids, played.completion.finish) == ((0,), Finish.STOP)
    assert played.tokens == (0, END)


def test_a_cancel_keeps_what_was_said() -> None:
    job = job_of(9)
    absorb(job, [0, 1])
    assert job.finish is None
    job.request.answer.cancel()
    assert job.finish is Finish.CANCELLED
    assert job.completion(Finish.CANCELLED).text == "ab"


def test_an_answer_that_is_complete_is_not_cancelled_any_more() -> None:
    job = job_of(2)
    absorb(job, [0, 1])
    job.request.answer.cancel()
    assert job.finish is Finish.LENGTH


def test_a_cancel_at_the_last_token_comes_too_late() -> None:
    job = job_of(2, answer=Answer(CancelToken(), {Piece("b", (1,), ""): False}.get))
    absorb(job, [0, 1])
    assert (job.cancelled, job.finish) == (True, Finish.LENGTH)


def test_a_failed_state_raises() -> None:
    job = job_of(9)
    job.decoding.failure = EngineFailure("what", "why", "remedy")
    with pytest.raises(EngineFailure):
        job.absorb(report_of(()))


def test_rounds_are_reported_whole() -> None:
    rounds: list[RoundReport] = []
    answer = Answer(CancelToken())
    request = Request(0, False, [1], GenerateOptions(stop=("a",)), answer, on_round=rounds.append)
    job = Job(request, TextStream(VOCAB, ("a",)), Clocked())
    job.begin_decoding(Law(SamplingSettings()), 9, frozenset())
    absorb(job, [1, 0, 1])
    assert [one.tokens for one in rounds] == [(1, 0, 1)]


def test_drafters_begin_with_the_whole_prompt() -> None:
    prompts: list[list[int]] = []

    class Beginner(Copier):
        def begin(self, sequence: int, prompt: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
            prompts.append([sequence, *prompt.tolist()])

    request = Request(7, False, [3, 4, 5], GenerateOptions(), Answer(CancelToken()))
    job = Job(request, TextStream(VOCAB), Clocked(), drafters=(Beginner(()),))
    assert job.prefilling
    job.begin_decoding(Law(SamplingSettings()), 9, frozenset())
    assert not job.prefilling
    assert prompts == [[7, 3, 4, 5]]


def test_figures_of_a_completion() -> None:
    notice = Notice("code", "message")
    options = GenerateOptions(SamplingSettings(seed=5), exact=True)
    request = Request(0, False, [1, 2, 3], options, Answer(CancelToken()))
    times = Clocked(started=1.0, prefilled=3.0, first_token=4.0, ended=5.0)
    job = Job(request, TextStream(VOCAB), times, width_class=(2, 4), n_cached=2)
    job.notice(notice)
    job.begin_decoding(Law(SamplingSettings()), 9, frozenset())
    absorb(job, [0, 1, 0, 1])
    job.decoding.counts.add(RoundReport(4, 2, 3, 1, (0, 1), ("b", ""), 0.0, 0.0, 0.0))
    job.decoding.counts.add(RoundReport(4, 1, 3, 1, (0, 1), ("a", ""), 0.0, 0.0, 0.0))
    whole = job.completion(Finish.LENGTH)
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (3, 4)
    assert whole.notices == job.request.answer.notices == (notice,)
    timings = whole.timings
    assert (timings.prompt_seconds, timings.decode_seconds, timings.first_token_seconds) == (2.0, 2.0, 3.0)
    assert timings.tokens_per_second == 2.0
    assert (timings.passes, timings.draft_n, timings.draft_n_accepted, timings.padded_rows) == (2, 6, 2, 3)
    assert (timings.drafter, timings.exact, timings.width_class) == ("a+b", True, (2, 4))
    assert (timings.cached_prompt_tokens, timings.seed) == (2, 5)


def test_figures_of_an_answer_that_never_began() -> None:
    request = Request(0, False, [1], GenerateOptions(), Answer(CancelToken()))
    job = Job(request, TextStream(VOCAB), Clocked(started=1.0, ended=4.0))
    whole = job.completion(Finish.CANCELLED)
    timings = whole.timings
    assert whole.scores == ()
    assert (timings.prompt_seconds, timings.first_token_seconds, timings.decode_seconds) == (3.0, 3.0, 0.0)
    assert (timings.tokens_per_second, timings.passes) == (0.0, 0)
