"""Rounds of jobs: what their policies hear, and what is left in them when an answer is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgespec.draft.lookup import LookupDrafter
from edgespec.engine.answer import CancelToken
from edgespec.events import Piece
from edgespec.spec.cost import CostTable
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import SequenceId
from tests.engine.test_worker import GREEDY, LIMITS, MODEL, asked, expect, target_of
from tests.engine.toy_engine import Copier, desk_over, done
from tests.spec.plain_decoding import plain_fast

# A second row costs next to nothing, and a third one much: long copies are verified two tokens at a time.
NARROW = CostTable((0,), (1, 2, 3, 16), ((1.0, 1.05, 1.1, 16.0),))


class Told(FixedPolicy):
    """Notes which answers it hears the end of."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "ends", [])

    ends: list[SequenceId]

    def end(self, sequence: SequenceId) -> None:
        self.ends.append(sequence)


@pytest.mark.parametrize("how", ["limit", "stop string", "cancelled", "failed"])
def test_the_policy_hears_of_every_end(how: str) -> None:
    policy, request = Told(), asked(max_tokens=30)
    with desk_over(target_of(), policy) as desk:
        if how == "failed":
            request = replace(request, sampling=replace(GREEDY, banned=tuple(range(LIMITS.n_vocab))))
        stop = (done(desk.ask(request)).text[4:6],) if how == "stop string" else ()
        n_before = len(policy.ends)
        token = CancelToken()

        def take(_: Piece) -> bool:
            return how != "cancelled"

        answer = desk.ask(request, LookupDrafter(1), stop=stop, cancel=token, sequence=7, on_piece=take)
        assert answer.wait(60.0)
        assert policy.ends[n_before:] == [7]


@pytest.mark.parametrize("n_pieces", range(1, 12))
def test_an_answer_that_is_broken_off_leaves_nothing_open_in_its_policy(n_pieces: int) -> None:
    """Guesses that wait for more of its text would keep every later answer from resting."""
    policy = MeasuredPolicy(NARROW)
    request = asked(max_tokens=30)
    truth = plain_fast(MODEL, request).output
    with desk_over(target_of(), policy) as desk:
        n_seen = 0

        def take(_: Piece) -> bool:
            nonlocal n_seen
            n_seen += 1
            return n_seen < n_pieces

        done(desk.ask(request, Copier(truth, n_ahead=12), on_piece=take, sequence=7))
        assert policy.lets_rest(7)
        expect(desk.ask(request, LookupDrafter()), request)
