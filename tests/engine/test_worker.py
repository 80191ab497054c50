"""The worker over a toy that checks every call: requests that mix, end, fail and are cut off in every way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel
from edgespec.draft.lookup import LookupDrafter
from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.job import Request
from edgespec.errors import BadInput, EngineFailure
from edgespec.events import Finish, Piece, RoundReport
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, Commit, Drafter, IntArray, Plan, Rows
from edgespec.spec.tree import DraftTree
from tests.engine.toy_engine import (
    DEADLINE_SECONDS,
    END,
    PIECES,
    Copier,
    Desk,
    EngineTarget,
    Gate,
    Interrupted,
    Pass,
    SmallVocabulary,
    answered,
    desk_over,
    done,
    plain_answer,
    said,
)
from tests.spec import rows
from tests.spec.plain_decoding import Asked, plain_exact, plain_fast

N_VOCAB = len(PIECES)
VOCAB = SmallVocabulary()
MODEL = ToyModel(n_vocab=N_VOCAB, seed=1)
LIMITS = Capabilities(n_ctx=400, n_vocab=N_VOCAB, max_rows=16, max_chunk=8, max_leaves=4, can_rollback=True)
WIDTHS = (2, 4, 8, 16)
EXACT_LIMITS = replace(LIMITS, width_classes=(WIDTHS,))
# Neither ends by itself: what is said depends on the limit alone.
GREEDY = SamplingSettings(banned=(END,))
WARM = SamplingSettings(temperature=0.8, seed=7, banned=(END,))


def target_of(limits: Capabilities = LIMITS, window: int = 0, rounding: bool = False) -> EngineTarget:
    return EngineTarget(MODEL, limits, window, rounding)


def asked(n_prompt: int = 5, max_tokens: int = 12, sampling: SamplingSettings = GREEDY, first: int = 0) -> Asked:
    return Asked(tuple((first + i * i) % 6 for i in range(n_prompt)), sampling, max_tokens, VOCAB.end_tokens)


def copier(request: Asked) -> Copier:
    return Copier(plain_fast(MODEL, request).output)


def expect(answer: Answer, request: Asked, stop: tuple[str, ...] = ()) -> None:
    assert answered(done(answer)) == plain_answer(VOCAB, plain_fast(MODEL, request), stop)


def raises_at(place: int, error: Exception, verify: bool = True) -> Callable[[Pass], None]:
    """Breaks the verify pass (or the prompt chunk) number `place`, counted from 0."""
    n_seen = 0

    def before(one: Pass) -> None:
        nonlocal n_seen
        if bool(one.width) is verify:
            n_seen += 1
            if n_seen == place + 1:
                raise error

    return before


# -- the same as plain --------------------------------------------------------------------------------------------


@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_requests_together_with_drafts_and_stop_strings_are_answered_as_alone_without(data: st.DataObject) -> None:
    requests = data.draw(REQUESTS)
    model = ToyModel(n_vocab=N_VOCAB, order=data.draw(st.integers(1, 2)), seed=data.draw(st.integers(0, 999)))
    with desk_over(EngineTarget(model, LIMITS)) as desk:
        expected, answers = [], []
        for request, stop, drafts in requests:
            plain = plain_fast(model, request)
            if plain.finish is None:  # every token was banned
                continue
            expected.append(plain_answer(VOCAB, plain, stop))
            drafters: dict[str, tuple[Drafter, ...]]
            drafters = {"none": (), "lookup": (LookupDrafter(1),), "copier": (Copier(plain.output),)}
            answers.append(desk.ask(request, *drafters[drafts], stop=stop))
        assert [answered(done(answer)) for answer in answers] == expected
        assert [said(answer) for answer in answers] == [one.text for one in expected]
    assert desk.target.live() == set()


REQUESTS = st.lists(
    st.tuples(
        st.builds(
            Asked,
            st.lists(st.integers(0, 5), min_size=1, max_size=20).map(tuple),
            rows.settings(N_VOCAB),
            st.integers(1, 30),
            st.just(VOCAB.end_tokens),
        ),
        st.lists(st.text("abé ", min_size=1, max_size=3), max_size=2).map(tuple),
        st.sampled_from(["none", "lookup", "copier"]),
    ),
    min_size=1,
    max_size=5,
)


def test_many_threads_ask_at_once() -> None:
    requests = [
        asked(3 + 2 * i, 20, replace(WARM if i % 2 else GREEDY, seed=i, penalty_last_n=i, presence_penalty=0.3 * i), i)
        for i in range(12)
    ]
    with desk_over(target_of()) as desk:
        answers: dict[int, Answer] = {}
        barrier = threading.Barrier(len(requests))

        def ask(place: int) -> None:
            barrier.wait(DEADLINE_SECONDS)
            answers[place] = desk.ask(requests[place], copier(requests[place]), LookupDrafter(2))

        threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(requests))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
        for place, request in enumerate(requests):
            expect(answers[place], request)
    assert max(len(one.rows) for one in desk.target.passes) <= LIMITS.max_sequences


def test_exact_answers_among_fast_ones_are_exact_and_alone_in_the_cache() -> None:
    # A flat model, so that the last bits decide often.
    model = ToyModel(n_vocab=N_VOCAB, seed=1, n_levels=2)
    target = EngineTarget(model, EXACT_LIMITS, rounding=True)
    exact = [replace(asked(4 + i, 20, first=i), widths=WIDTHS) for i in range(3)]
    plain = [plain_exact(model, EXACT_LIMITS, request) for request in exact]
    together: list[set[int]] = []
    target.before_pass = lambda one: together.append(target.live() | set(one.rows))
    with desk_over(target) as desk:
        answers: list[Answer] = []
        for request, truth in zip(exact, plain, strict=True):
            answers += [desk.ask(request, Copier(truth.output)), desk.ask(asked(6, 30), sequence=len(answers))]
        for answer, truth in zip(answers[::2], plain, strict=True):
            completion = done(answer)
            assert answered(completion) == plain_answer(VOCAB, truth)
            assert (completion.timings.exact, completion.timings.width_class) == (True, WIDTHS)
            assert completion.timings.draft_n_accepted > 0
    of_exact = {1000, 1002, 1004}
    assert all(len(cached) == 1 for cached in together if cached & of_exact)
    assert {one.width for one in target.passes if one.width and set(one.rows) & of_exact} <= set(WIDTHS)


def test_the_same_seed_says_the_same_and_another_something_else() -> None:
    with desk_over(target_of()) as desk:
        texts = [said(desk.ask(asked(sampling=replace(WARM, seed=seed)))) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


# -- borders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_prompt", [1, 2, 7, 8, 9, 10, 16, 17, 18, 398, 399])
def test_prompts_of_every_border_length(n_prompt: int) -> None:
    request = asked(n_prompt, 3)
    with desk_over(target_of()) as desk:
        completion = done(desk.ask(request, LookupDrafter(1)))
        chunks = [sum(one.rows.values()) for one in desk.target.passes if not one.width]
    room = LIMITS.n_ctx - n_prompt
    assert answered(completion) == plain_answer(VOCAB, plain_fast(MODEL, replace(request, max_tokens=min(3, room))))
    assert completion.usage.prompt_tokens == n_prompt
    assert sum(chunks) == n_prompt - 1
    assert chunks == [8] * (len(chunks) - 1) + chunks[-1:]


def test_the_answer_ends_where_the_context_does() -> None:
    with desk_over(target_of()) as desk:
        completion = done(desk.ask(asked(390, 1000), copier(asked(390, 10))))
    assert (completion.finish, completion.usage.completion_tokens) == (Finish.LENGTH, 10)


def test_one_token_takes_one_pass() -> None:
    with desk_over(target_of()) as desk:
        completion = done(desk.ask(asked(max_tokens=1), copier(asked())))
    assert (completion.usage.completion_tokens, completion.timings.passes, completion.timings.draft_n) == (1, 1, 0)


def test_the_clock_is_read_in_order() -> None:
    with desk_over(target_of()) as desk:
        timings = done(desk.ask(asked(30, 5))).timings
    assert 0.0 < timings.prompt_seconds < timings.first_token_seconds <= timings.prompt_seconds + timings.decode_seconds


# -- fairness and room --------------------------------------------------------------------------------------------


def test_prompts_take_turns_and_never_stall_an_answer() -> None:
    target = target_of()
    gate = Gate(target, lambda one: bool(one.width))
    with desk_over(target) as desk:
        running = desk.ask(asked(3, 40))
        gate.wait_until_reached()
        first, second = desk.ask(asked(41, 2), sequence=1), desk.ask(asked(41, 2), sequence=2)
        gate.open()
        for answer in (running, first, second):
            done(answer)
    chunks = [next(iter(one.rows)) for one in target.passes if not one.width and 1000 not in one.rows]
    assert chunks == [1, 2] * 5
    both = [one for one in target.passes if one.width or 1000 not in one.rows]
    read = [place for place, one in enumerate(both) if not one.width]
    assert all(b - a > 1 for a, b in pairwise(read))


def test_what_does_not_fit_beside_the_others_waits_its_turn() -> None:
    target = target_of()
    gate = Gate(target, lambda one: bool(one.width))
    order: list[str] = []
    with desk_over(target) as desk:
        large, huge, small = asked(10, 300), asked(200, 190), asked(3, 3)
        answers = [desk.ask(large, on_done=lambda _: order.append("large"))]
        gate.wait_until_reached()
        answers.append(desk.ask(huge, on_done=lambda _: order.append("huge")))
        answers.append(desk.ask(small, on_done=lambda _: order.append("small")))
        gate.open()
        for answer, request in zip(answers, (large, huge, small), strict=True):
            expect(answer, request)
    assert order[0] == "large"  # first come, first served: the small one would have fitted beside it
    assert all(len(one.rows) == 1 or 1000 not in one.rows for one in target.passes)


def test_a_target_that_cannot_roll_back_decodes_plainly_and_one_by_one() -> None:
    limits = replace(LIMITS, can_rollback=False, max_rows=1)
    requests = [asked(4 + i, 10, first=i) for i in range(5)]
    with desk_over(target_of(limits)) as desk:
        answers = [desk.ask(request, Broken("begin")) for request in requests]
        for answer, request in zip(answers, requests, strict=True):
            expect(answer, request)
            assert answer.notices == ()  # nobody was asked to draft


# -- cancelling ---------------------------------------------------------------------------------------------------


def test_a_cancel_ends_the_reading_of_a_prompt_at_once() -> None:
    target = target_of()
    gate = Gate(target, lambda one: not one.width and len(target.passes) == 2)
    with desk_over(target) as desk:
        answer = desk.ask(asked(100))
        gate.wait_until_reached()
        answer.cancel()  # nobody opens the gate: the pass is interrupted
        completion = done(answer)
        gate.open()
        expect(desk.ask(asked()), asked())
    assert (completion.finish, completion.text, completion.token_ids) == (Finish.CANCELLED, "", ())
    assert (completion.timings.passes, completion.timings.tokens_per_second) == (0, 0.0)
    assert [one.width for one in target.passes[:3]] == [0, 0, 0]
    assert sum(sum(one.rows.values()) for one in target.passes if 1000 in one.rows) == 16


def test_a_cancel_between_two_chunks_of_a_prompt_reads_no_further() -> None:
    target = target_of()
    gate = Gate(target, lambda one: not one.width and len(target.passes) == 2)
    with desk_over(target) as desk:
        answer = desk.ask(asked(100))
        gate.wait_until_reached()
        desk.worker.between(answer.cancel)  # nothing is being read at that moment, so nothing is interrupted
        gate.open()
        assert done(answer).finish is Finish.CANCELLED
        assert [one.rows for one in target.passes] == [{1000: 8}] * 3
        expect(desk.ask(asked()), asked())


def test_a_cancelled_prompt_goes_on_where_it_was_left() -> None:
    target = target_of()
    gate = Gate(target, lambda one: not one.width and len(target.passes) == 2)
    with desk_over(target) as desk:
        answer = desk.ask(asked(100), sequence=1)
        gate.wait_until_reached()
        answer.cancel()
        done(answer)
        gate.open()
        again = desk.ask(asked(100), sequence=1)
        expect(again, asked(100))
        assert done(again).timings.cached_prompt_tokens == 16


def test_a_pass_that_is_cut_short_for_another_request_is_run_again() -> None:
    target = target_of()
    n_rounds = 0

    def interrupt_now_and_then(_: RoundReport) -> None:
        nonlocal n_rounds
        n_rounds += 1
        if n_rounds % 2:
            target.interrupt()  # what a cancel does that comes a moment too late

    with desk_over(target) as desk:
        request = asked(30, 20)
        expect(desk.ask(request, copier(request), on_round=interrupt_now_and_then), request)
    assert n_rounds > 4


def test_a_cancel_while_decoding_keeps_what_was_said() -> None:
    request, token = asked(max_tokens=40), CancelToken()
    n_rounds = 0

    def third_cancels(_: RoundReport) -> None:
        nonlocal n_rounds
        n_rounds += 1
        if n_rounds == 3:
            token.cancel()

    with desk_over(target_of()) as desk:
        completion = done(desk.ask(request, cancel=token, on_round=third_cancels))
        expect(desk.ask(request), request)
    assert (completion.finish, n_rounds) == (Finish.CANCELLED, 3)
    assert completion.token_ids == plain_fast(MODEL, request).output[:3]


def test_a_cancel_before_the_start_reads_nothing() -> None:
    token = CancelToken()
    token.cancel()
    with desk_over(target_of()) as desk:
        completion = done(desk.ask(asked(), cancel=token))
        assert completion.finish is Finish.CANCELLED
        assert desk.target.passes == []


def test_a_cancel_while_waiting_in_line() -> None:
    target = target_of()
    gate = Gate(target, lambda one: bool(one.width))
    with desk_over(target) as desk:
        running = desk.ask(asked(10, 390))
        gate.wait_until_reached()
        waiting, last = desk.ask(asked(100, 100)), desk.ask(asked(9, 4))
        waiting.cancel()
        gate.open()
        assert done(waiting).finish is Finish.CANCELLED
        assert done(running).finish is Finish.LENGTH
        expect(last, asked(9, 4))
    assert not any(1001 in one.rows for one in target.passes)


def test_a_callback_that_returns_false_stops_the_answer_there_with_drafts_or_without() -> None:
    request = asked(max_tokens=40)
    seen: list[Piece] = []

    def take(piece: Piece) -> bool:
        seen.append(piece)
        return len(seen) % 6 != 0

    with desk_over(target_of()) as desk:
        plain, drafted = done(desk.ask(request, on_piece=take)), done(desk.ask(request, copier(request), on_piece=take))
    assert plain.finish is drafted.finish is Finish.CANCELLED
    assert plain.text == drafted.text == "".join(piece.text for piece in seen[:6])
    assert [piece.text for piece in seen[:6]] == [piece.text for piece in seen[6:]]


def test_a_token_that_is_done_with_is_let_go() -> None:
    class Counting(CancelToken):
        n_listening = 0

        def on_cancel(self, listener: Callable[[], None]) -> None:
            self.n_listening += 1
            super().on_cancel(listener)

        def forget(self, listener: Callable[[], None]) -> None:
            self.n_listening -= 1
            super().forget(listener)

    token = Counting()
    with desk_over(target_of()) as desk:
        for _ in range(3):
            done(desk.ask(asked(), cancel=token))
    assert token.n_listening == 0


# -- what fails, fails alone --------------------------------------------------------------------------------------


class Broken(Copier):
    """Raises in one of its methods."""

    def __init__(self, where: str) -> None:
        super().__init__((0, 1, 2))
        self._where = where

    def _maybe(self, where: str) -> None:
        if where == self._where:
            raise RuntimeError(f"broken in {where}")

    def begin(self, sequence: int, prompt: IntArray) -> None:
        self._maybe("begin")

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        self._maybe("propose")
        return super().propose(sequence, plan)

    def anticipate(self, sequence: int, tree: DraftTree) -> None:
        self._maybe("anticipate")

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._maybe("observe")
        super().observe(sequence, commit, rows, nodes)

    def end(self, sequence: int) -> None:
        self._maybe("end")


@pytest.mark.parametrize("where", ["begin", "propose", "anticipate", "observe", "end"])
def test_a_drafter_that_raises_costs_speed_only(where: str) -> None:
    request = asked(max_tokens=20)
    with desk_over(target_of()) as desk:
        answer = desk.ask(request, Broken(where), copier(request))
        expect(answer, request)
        assert [notice.code for notice in answer.notices] == ["draft-raised"]
        if where != "end":
            assert done(answer).notices == answer.notices
            assert done(answer).timings.drafter == "copier"


@pytest.mark.parametrize("error", [EngineFailure("llama_decode returned -3", "why", "remedy"), ValueError("a defect")])
@pytest.mark.parametrize("verify", [True, False])
def test_a_target_that_fails_fails_the_request_and_the_next_one_works(error: Exception, verify: bool) -> None:
    target = target_of()
    with desk_over(target) as desk:
        target.before_pass = raises_at(1, error, verify)
        request = asked(30, 20)
        pieces: list[Piece] = []
        answer = desk.ask(request, sequence=3, on_piece=pieces.append)
        with pytest.raises(EngineFailure) as caught:
            done(answer)
        assert str(error) in str(caught.value)
        assert len(pieces) == (1 if verify else 0)
        assert 3 not in target.live()
        again = desk.ask(request, sequence=3)
        expect(again, request)
        assert done(again).timings.cached_prompt_tokens == 0


def test_a_pass_that_fails_takes_its_own_requests_only() -> None:
    target = target_of()
    gate = Gate(target, lambda one: bool(one.width) and len(one.rows) == 2)
    with desk_over(target) as desk:
        fast = [desk.ask(asked(3, 50, first=i)) for i in range(2)]
        gate.wait_until_reached()
        reading = desk.ask(asked(60, 20))
        target.before_pass = lambda one: fail_if(len(one.rows) == 2)
        gate.open()
        for answer in fast:
            with pytest.raises(EngineFailure, match="it broke"):
                done(answer)
        expect(reading, asked(60, 20))


def fail_if(condition: bool) -> None:
    if condition:
        raise EngineFailure("a pass", "it broke", "try again")


def test_a_law_that_finds_no_token_fails_alone() -> None:
    target = target_of()
    gate = Gate(target, lambda one: bool(one.width))
    impossible = replace(asked(), sampling=SamplingSettings(banned=tuple(range(N_VOCAB))))
    with desk_over(target) as desk:
        good = desk.ask(asked(9, 30))
        gate.wait_until_reached()
        bad = desk.ask(impossible)
        gate.open()
        with pytest.raises(EngineFailure, match="no token can be chosen"):
            done(bad)
        expect(good, asked(9, 30))


@pytest.mark.parametrize("error", [BadInput("a prediction", "it is odd", "leave it out"), RuntimeError("a defect")])
def test_drafters_that_cannot_be_made_fail_their_request_only(error: Exception) -> None:
    class Odd(Desk):
        def _make_drafters(self, request, notify):  # type: ignore[no-untyped-def]
            if request.prompt[0] == 5:
                raise error
            return super()._make_drafters(request, notify)

    target = target_of()
    desk = Odd(target)
    good, bad = desk.ask(asked(9, 30)), desk.ask(Asked((5, 1), GREEDY, 9))
    with pytest.raises((BadInput, EngineFailure)) as caught:
        done(bad)
    assert str(error.args[0]) in str(caught.value)
    expect(good, asked(9, 30))
    desk.worker.close()
    assert target.live() == set()


def test_a_callback_that_raises_ends_its_own_answer_with_what_it_raised() -> None:
    def fails(_: Piece) -> None:
        raise LookupError("the caller's mistake")

    with desk_over(target_of()) as desk:
        good, bad = desk.ask(asked(9, 30)), desk.ask(asked(5, 30), on_piece=fails)
        with pytest.raises(LookupError, match="the caller's mistake"):
            done(bad)
        expect(good, asked(9, 30))
        assert desk.target.live() == set()


@pytest.mark.parametrize("where", ["on_round", "on_done"])
def test_a_watcher_that_raises_fails_its_own_request(where: str) -> None:
    def fails(_: object) -> None:
        raise LookupError("the watcher's mistake")

    with desk_over(target_of()) as desk:
        good = desk.ask(asked(9, 30))
        bad = desk.ask(
            asked(5, 3), on_round=fails if where == "on_round" else None, on_done=fails if where == "on_done" else None
        )
        # What the caller's own code raises is his; `on_done` is the engine's.
        with pytest.raises(LookupError if where == "on_round" else EngineFailure, match="the watcher's mistake"):
            done(bad)
        expect(good, asked(9, 30))


# -- closing ------------------------------------------------------------------------------------------------------


def test_closing_ends_every_answer_with_an_error() -> None:
    target = target_of()
    gate = Gate(target, lambda one: bool(one.width))
    desk = Desk(target)
    running, waiting = desk.ask(asked(10, 390)), desk.ask(asked(10, 390))
    gate.wait_until_reached()
    unseen = desk.ask(asked())
    desk.worker.close()
    assert target.closed.is_set()
    for answer in (running, waiting, unseen):
        with pytest.raises(EngineFailure, match="the engine was closed"):
            done(answer)
        with pytest.raises(EngineFailure, match="the engine was closed"):
            said(answer)
    with pytest.raises(EngineFailure, match="has been closed"):
        desk.ask(asked())
    desk.worker.release(1000)
    desk.worker.close()


def test_a_callback_may_close_the_engine() -> None:
    desk = Desk(target_of())
    answer = desk.ask(asked(), on_piece=lambda _: desk.worker.close())
    with pytest.raises(EngineFailure, match="the engine was closed"):
        done(answer)
    desk.worker.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_drafter_that_ends_the_thread_leaves_nobody_waiting() -> None:
    class Exits(Copier):
        def propose(self, sequence: int, plan: Plan) -> DraftTree:
            raise SystemExit

    desk = Desk(target_of())
    answer = desk.ask(asked(), Exits(()))
    with pytest.raises(EngineFailure):
        done(answer)
    assert desk.target.closed.wait(DEADLINE_SECONDS)
    with pytest.raises(EngineFailure, match="has been closed"):
        desk.ask(asked())
    desk.worker.close()


# -- caches between answers ---------------------------------------------------------------------------------------


def test_a_sequence_is_forgotten_on_request_but_not_under_a_running_answer() -> None:
    target = target_of()
    gate = Gate(target, lambda one: bool(one.width))
    with desk_over(target) as desk:
        request = asked(20, 20)
        answer = desk.ask(request, sequence=1)
        gate.wait_until_reached()
        desk.worker.release(1)
        gate.open()
        expect(answer, request)
        done(desk.ask(asked()))  # whatever was to be forgotten is forgotten by now
        assert target.live() == set()
        again = desk.ask(request, sequence=1)
        expect(again, request)
        assert done(again).timings.cached_prompt_tokens == 0
        done(desk.ask(asked()))
        assert target.live() == {1}


def test_the_cache_after_an_exact_answer_is_that_of_plain_decoding() -> None:
    model = ToyModel(n_vocab=N_VOCAB, order=1, seed=1, n_levels=3)
    left: list[tuple[tuple[int, ...], list[str]]] = []
    for drafts in (False, True):
        target = EngineTarget(model, EXACT_LIMITS, rounding=True)
        text: tuple[int, ...] = (1, 2, 3)
        with desk_over(target, FixedPolicy(max_nodes=8, max_leaves=4)) as desk:
            for _ in range(4):
                request = Asked(text, WARM, 15, widths=WIDTHS)
                truth = plain_exact(model, EXACT_LIMITS, request).output
                drafters: tuple[Drafter, ...] = (Copier(truth), LookupDrafter(1)) if drafts else ()
                answer = desk.ask(request, *drafters, sequence=1, stop=("aé",))
                text += (*done(answer).token_ids, 3, 1)
            left.append((text, list(target.origin[1])))
    assert left[0] == left[1]
    assert set(left[0][1]) == {"prompt", "2"}


def test_passes_that_are_interrupted_leave_no_trace() -> None:
    target = target_of()
    with desk_over(target) as desk:
        n_seen = 0

        def now_and_then(_: Pass) -> None:
            nonlocal n_seen
            n_seen += 1
            if n_seen % 3 == 1:
                raise Interrupted

        target.before_pass = now_and_then
        request = asked(30, 20)
        expect(desk.ask(request, copier(request), sequence=1), request)
        expect(desk.ask(request, copier(request), sequence=1), request)
    assert np.count_nonzero([not one.width for one in target.passes]) == 4


# -- other settings, and what is done in between --------------------------------------------------------------------


def test_a_request_that_runs_alone_may_bring_other_settings_and_an_empty_cache() -> None:
    target, asked_for = target_of(), list[tuple[int, int]]()

    def suit(request: Request, n_cached: int) -> bool:
        asked_for.append((request.sequence, n_cached))
        if len(asked_for) < 2:
            return False
        target.reopen(target.settings)
        return True

    first, second = asked(5, 12), asked(9, 12)
    with desk_over(target, suit=suit) as desk:
        kept = done(desk.ask(first, sequence=1))
        longer = replace(first, prompt=(*first.prompt, *kept.token_ids, 1))
        again = done(desk.ask(longer, sequence=1))
        other = done(desk.ask(second))
    assert asked_for[:2] == [(1, 0), (1, len(first.prompt) + 11)]
    assert again.timings.cached_prompt_tokens == 0
    assert answered(again) == plain_answer(VOCAB, plain_fast(MODEL, longer))
    assert answered(other) == plain_answer(VOCAB, plain_fast(MODEL, second))


def test_settings_never_change_beside_a_running_answer() -> None:
    target, calls = target_of(), list[int]()

    def suit(request: Request, _n_cached: int) -> bool:
        calls.append(request.sequence)
        return False

    gate = Gate(target, lambda one: bool(one.width))
    with desk_over(target, suit=suit) as desk:
        running = desk.ask(asked(), sequence=1)
        gate.wait_until_reached()
        beside = desk.ask(asked(first=1), sequence=2)
        gate.open()
        done(running)
        done(beside)
    assert calls == [1]


def test_what_is_to_be_done_in_between_is_done_in_the_workers_thread() -> None:
    threads: list[str] = []
    finished = threading.Event()

    def act() -> None:
        threads.append(threading.current_thread().name)
        finished.set()

    with desk_over(target_of()) as desk:
        desk.worker.between(act)
        assert finished.wait(DEADLINE_SECONDS)
        done(desk.ask(asked()))
        assert desk.worker.quiet.wait(DEADLINE_SECONDS)
    assert threads == ["edgespec-target"]
