from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgespec.draft.forced import ForcedDrafter, Habits
from edgespec.spec.allowed import ForcedTokens, Forcing
from edgespec.spec.ports import Needs, Plan
from edgespec.spec.tree import check_tree, is_chain
from tests.draft.fake import NoRows, commit_of, play, prompt_of

END, OTHER_END = 90, 91
# A form with two fixed parts and free tokens after them: (1 2 3) free free (4 5) free end.
FIXED = {0: [1, 2, 3], 5: [4, 5]}
N_FORM = 8


def form(output: Sequence[int], limit: int, end: int | None) -> ForcedTokens:
    """The fixed part's last token is an edge, the one before it an inner guess, all else certain."""
    n = len(output)
    if n == N_FORM:
        found = [(END if end is None else end, Forcing.END)]
    else:
        start = max(place for place in FIXED if place <= n)
        part = FIXED[start][n - start :]
        reasons = [Forcing.SOLE, Forcing.INNER, Forcing.EDGE][3 - len(part) :] if part else []
        found = list(zip(part, reasons, strict=True))
    return ForcedTokens([token for token, _ in found[:limit]], [reason for _, reason in found[:limit]])


def begun(habits: Habits | None = None) -> ForcedDrafter:
    drafter = ForcedDrafter(form, habits)
    drafter.begin(0, prompt_of([7, 1, 2]))
    return drafter


def commit(drafter: ForcedDrafter, tokens: Sequence[int]) -> None:
    drafter.observe(0, commit_of(tokens), NoRows(), np.empty(0, np.int32))


def test_it_drafts_what_is_forced_after_the_output() -> None:
    drafter = begun()
    tree = drafter.propose(0, Plan(8))
    check_tree(tree, 100)
    assert is_chain(tree)
    assert tree.tokens.tolist() == [1, 2, 3]
    assert tree.survival[0] == 1.0
    assert 1.0 > tree.survival[1] > tree.survival[2] > 0.0
    commit(drafter, [1])
    assert drafter.propose(0, Plan(8)).tokens.tolist() == [2, 3]
    commit(drafter, [2, 3, 50])
    assert len(drafter.propose(0, Plan(8))) == 0
    assert (drafter.name, drafter.needs, drafter.behind(0)) == ("forced", Needs.TOKENS, 0)


def test_it_keeps_to_the_plan() -> None:
    drafter = begun()
    assert len(drafter.propose(0, Plan(0))) == 0
    assert len(drafter.propose(0, Plan(4, max_leaves=0))) == 0
    assert drafter.propose(0, Plan(2)).tokens.tolist() == [1, 2]


def test_every_token_that_is_forced_saves_a_pass() -> None:
    tally = play(begun(), 0, [1, 2, 3, 50, 51, 4, 5, 52, END], Plan(8))
    assert tally.n_passes == 4  # [1 2 3 50] [51] [4 5 52] [end]


def test_guesses_are_believed_as_far_as_they_come_true() -> None:
    habits = Habits()
    for _ in range(60):
        drafter = begun(habits)
        drafter.propose(0, Plan(8))
        commit(drafter, [1, 2, 77])
    drafter = begun(habits)
    survival = drafter.propose(0, Plan(8)).survival.tolist()
    assert survival[0] == 1.0
    assert survival[1] > 0.95
    assert survival[2] < 0.05


def test_what_is_certain_stays_so() -> None:
    habits = Habits()
    for _ in range(1000):
        drafter = begun(habits)
        drafter.propose(0, Plan(8))
        commit(drafter, [1, 78])
    assert begun(habits).propose(0, Plan(1)).survival.tolist() == [1.0]


@pytest.mark.parametrize("truth", [END, OTHER_END])
def test_the_end_token_is_the_one_that_came_last(truth: int) -> None:
    habits = Habits()
    for n in range(3):
        drafter = begun(habits)
        commit(drafter, [1, 2, 3, 50, 51, 4, 5, 52])
        assert drafter.propose(0, Plan(8)).tokens.tolist() == [END if n == 0 else truth]
        commit(drafter, [truth])
    assert habits.end == truth


def test_an_end_that_was_not_reached_teaches_nothing() -> None:
    def two(_output: Sequence[int], limit: int, end: int | None) -> ForcedTokens:
        return ForcedTokens([5, END if end is None else end][:limit], [Forcing.EDGE, Forcing.END][:limit])

    habits = Habits()
    drafter = ForcedDrafter(two, habits)
    drafter.begin(0, prompt_of([1]))
    for emitted in ([6, OTHER_END], [5]):
        drafter.propose(0, Plan(8))
        commit(drafter, emitted)
        assert habits.end is None
    drafter.propose(0, Plan(8))
    commit(drafter, [5, OTHER_END])
    assert habits.end == OTHER_END


def test_sequences_are_kept_apart_and_forgotten() -> None:
    drafter = begun()
    drafter.begin(1, prompt_of([9]))
    commit(drafter, [1, 2])
    assert drafter.propose(0, Plan(8)).tokens.tolist() == [3]
    assert drafter.propose(1, Plan(8)).tokens.tolist() == [1, 2, 3]
    drafter.end(0)
    drafter.end(0)
    with pytest.raises(KeyError):
        drafter.propose(0, Plan(8))
    drafter.begin(0, prompt_of([9]))
    assert drafter.propose(0, Plan(8)).tokens.tolist() == [1, 2, 3]
