"""The worker on a machine whose cores others take: answers stay what they are, say so once, and exact ones wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel
from edgespec.draft.lookup import LookupDrafter
from edgespec.engine.answer import CancelToken
from edgespec.errors import BadInput
from edgespec.events import Finish, Notice, RoundReport
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import Capabilities
from tests.engine.toy_engine import (
    END,
    PIECES,
    EngineTarget,
    Gate,
    SmallVocabulary,
    answered,
    desk_over,
    done,
    plain_answer,
)
from tests.engine.toy_machine import ToyMachine
from tests.spec.plain_decoding import Asked, plain_exact, plain_fast

VOCAB = SmallVocabulary()
MODEL = ToyModel(n_vocab=len(PIECES), seed=1)
LIMITS = Capabilities(n_ctx=4000, n_vocab=len(PIECES), max_rows=16, max_chunk=8, max_leaves=4, can_rollback=True)
WIDTHS = (2, 4, 8, 16)
EXACT_LIMITS = replace(LIMITS, width_classes=(WIDTHS,))
GREEDY = SamplingSettings(banned=(END,))


def asked(n_prompt: int = 5, max_tokens: int = 12, exact: bool = False) -> Asked:
    tokens = tuple(i * i % 6 for i in range(n_prompt))
    return Asked(tokens, GREEDY, max_tokens, VOCAB.end_tokens, WIDTHS if exact else ())


def machine(limits: Capabilities = LIMITS) -> ToyMachine:
    return ToyMachine(EngineTarget(MODEL, limits, rounding=limits is EXACT_LIMITS))


def busy_from(one: ToyMachine, start: int, end: int) -> Callable[[RoundReport], None]:
    """Another program is busy from round `start` to round `end`."""
    n_rounds = 0

    def on_round(_: RoundReport) -> None:
        nonlocal n_rounds
        n_rounds += 1
        one.n_busy = int(start <= n_rounds < end)

    return on_round


def codes(notices: tuple[Notice, ...]) -> list[str]:
    return [notice.code for notice in notices]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(1, 60)), min_size=1, max_size=4))
def test_answers_beside_busy_programs_are_those_of_an_idle_machine(asks: list[tuple[int, int, int]]) -> None:
    one = machine()
    with desk_over(one.target, pacing=one.paced()) as desk:
        answers = []
        for start, length, max_tokens in asks:
            request = asked(3 + start, max_tokens)
            on_round = busy_from(one, start, start + length)
            answers.append((request, desk.ask(request, LookupDrafter(1), on_round=on_round)))
        for request, answer in answers:
            assert answered(done(answer)) == plain_answer(VOCAB, plain_fast(MODEL, request))
    assert one.target.live() == set()


def test_an_answer_that_lost_its_threads_says_so_once_and_the_next_one_too_until_they_are_back() -> None:
    one = machine()
    pacing = one.paced()
    with desk_over(one.target, pacing=pacing) as desk:
        before = done(desk.ask(asked(max_tokens=20)))
        hit = done(desk.ask(asked(max_tokens=40), on_round=busy_from(one, 5, 100)))
        beside = done(desk.ask(asked(max_tokens=20), on_round=busy_from(one, 0, 100)))
        one.n_busy = 0
        back = done(desk.ask(asked(max_tokens=200)))
        after = done(desk.ask(asked(max_tokens=20)))
    assert codes(before.notices) == codes(after.notices) == []
    assert codes(hit.notices) == codes(beside.notices) == codes(back.notices) == ["cores-taken"]
    assert "1 thread instead of 2" in hit.notices[0].message
    assert (pacing.status.n_threads, pacing.status.n_aborted) == (2, 1)
    assert one.log[-1][0] == 2


def test_all_answers_of_a_batch_say_so() -> None:
    one = machine()
    gate = Gate(one.target, lambda entry: bool(entry.width))
    hold, work = one.target.before_pass, one._work
    assert hold is not None
    with desk_over(one.target, pacing=one.paced()) as desk:
        first = desk.ask(asked(max_tokens=30), on_round=busy_from(one, 9, 999))
        gate.wait_until_reached()
        second = desk.ask(asked(max_tokens=30), sequence=1)
        one.target.before_pass = work
        gate.open()
        assert codes(done(first).notices) == codes(done(second).notices) == ["cores-taken"]


def test_a_prompt_that_is_read_beside_a_busy_program_is_read_with_one_thread() -> None:
    one = machine()
    with desk_over(one.target, pacing=one.paced()) as desk:
        done(desk.ask(asked(100, 5)))
        one.n_busy = 1
        started = one.now
        completion = done(desk.ask(asked(100, 5)))
    assert codes(completion.notices) == ["cores-taken"]
    assert sum(late for _, _, late in one.log) == 1
    alone = sum(seconds for n_threads, seconds, _ in one.log if n_threads == 1)
    assert one.now - started <= alone + 4 * 0.03


def test_exact_answers_keep_their_threads_and_wait() -> None:
    one = machine(EXACT_LIMITS)
    plain = plain_exact(MODEL, EXACT_LIMITS, asked(exact=True))
    with desk_over(one.target, pacing=one.paced()) as desk:
        done(desk.ask(asked(max_tokens=20), on_round=busy_from(one, 5, 99)))
        assert one.target.n_threads == 1
        n_before = len(one.log)
        completion = done(desk.ask(asked(exact=True)))
        assert answered(completion) == plain_answer(VOCAB, plain)
        assert {(n, late) for n, _, late in one.log[n_before:]} == {(2, False)}
        assert codes(completion.notices) == ["cores-taken"]
        assert "keeps its 2 threads" in completion.notices[0].message
        done(desk.ask(asked(max_tokens=20)))  # a fast one steps down again
    assert one.log[-1][0] == 1


def test_exact_answers_step_among_threads_that_were_found_to_agree() -> None:
    one = machine(EXACT_LIMITS)
    probed: list[int] = []

    def agreeing(_notify: object) -> tuple[int, ...]:
        probed.append(one.target.n_threads)
        return (2, 1)

    plain = plain_exact(MODEL, EXACT_LIMITS, asked(max_tokens=30, exact=True))
    with desk_over(one.target, pacing=one.paced(), agreeing_threads=agreeing) as desk:
        done(desk.ask(asked(max_tokens=20), on_round=busy_from(one, 5, 99)))
        completion = done(desk.ask(asked(max_tokens=30, exact=True)))
    assert probed == [2]
    assert answered(completion) == plain_answer(VOCAB, plain)
    assert codes(completion.notices) == ["cores-taken"]
    assert one.log[-1][0] == 1
    assert {entry.width for entry in one.target.passes[-20:]} <= set(WIDTHS)


@pytest.mark.parametrize("ending", ["cancelled", "failed", "in the probe"])
def test_however_an_exact_answer_ends_threads_step_again(ending: str) -> None:
    one = machine(EXACT_LIMITS)
    cancel = CancelToken()

    def agreeing(_notify: object) -> tuple[int, ...]:
        if ending == "in the probe":
            raise BadInput("a probe", "it broke", "try again")
        return ()

    def fail(_: RoundReport) -> None:
        if ending == "failed":
            raise BadInput("a round", "it broke", "try again")
        cancel.cancel()

    with desk_over(one.target, pacing=one.paced(), agreeing_threads=agreeing) as desk:
        done(desk.ask(asked(max_tokens=5)))
        answer = desk.ask(asked(max_tokens=50, exact=True), cancel=cancel, on_round=fail)
        if ending == "cancelled":
            assert done(answer).finish is Finish.CANCELLED
        else:
            with pytest.raises(BadInput):
                done(answer)
        one.n_busy = 1
        done(desk.ask(asked(max_tokens=5)))
    assert one.log[-1][0] == 1


def test_a_cancelled_request_ends_the_probe_that_is_made_for_it() -> None:
    one = machine(EXACT_LIMITS)
    cancel = CancelToken()
    whole: list[bool] = []

    def agreeing(_notify: object) -> tuple[int, ...]:
        if not cancel.cancelled:
            cancel.cancel()
        one.target.extend(-1, np.array([1], np.int32))
        whole.append(True)
        return ()

    with desk_over(one.target, pacing=one.paced(), agreeing_threads=agreeing) as desk:
        assert done(desk.ask(asked(exact=True), cancel=cancel)).finish is Finish.CANCELLED
        assert whole == []
        assert done(desk.ask(asked(exact=True))).finish is Finish.LENGTH
        assert whole == [True]


def test_a_cancelled_answer_in_the_queue_does_not_loosen_the_exact_one_that_runs() -> None:
    one = machine(EXACT_LIMITS)
    with desk_over(one.target, pacing=one.paced()) as desk:
        done(desk.ask(asked(max_tokens=5)))
        waiting = CancelToken()
        n_before = len(one.log)

        def cancel_the_other(_: RoundReport) -> None:
            one.n_busy = 1
            waiting.cancel()

        first = desk.ask(asked(max_tokens=30, exact=True), on_round=cancel_the_other)
        second = desk.ask(asked(max_tokens=30, exact=True), cancel=waiting)
        done(first)
        assert done(second).finish is Finish.CANCELLED
    assert {(n, late) for n, _, late in one.log[n_before:]} == {(2, False)}
