"""Claims are corrected by what came true: liars are found out, honest drafters believed, changes noticed."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.acceptance import Acceptance, Tally, Watch
from edgespec.spec.profile import Profile
from edgespec.spec.tree import DraftTree, chain, depths, tree_of
from tests.spec.random_trees import trees

NEW = 7  # a text of which nothing is known yet


def observe(acceptance: Acceptance, tree: DraftTree, committed: list[int], position: int = 0, name: str = "d") -> None:
    _, watch = acceptance.calibrate(0, name, 0, tree, position)
    acceptance.score(0, name, watch, position, committed)


def claimed(step: float, n: int = 4) -> DraftTree:
    return chain(list(range(n)), [step ** (i + 1) for i in range(n)])


def truth(n_right: int, n: int = 4) -> list[int]:
    """What is committed when the first `n_right` tokens of `claimed` come true."""
    return [*range(n_right), 99][: n + 1]


def train(acceptance: Acceptance, step_claim: float, rate: float, n_rounds: int, seed: int = 1) -> None:
    random = Random(seed)
    for _ in range(n_rounds):
        n_right = 0
        while n_right < 4 and random.random() < rate:
            n_right += 1
        observe(acceptance, claimed(step_claim), truth(n_right))


@given(trees(max_nodes=12, siblings_differ=True), st.integers(0, 50), st.integers(0, 10**6))
def test_survival_is_the_product_of_steps_and_never_rises(tree: DraftTree, n_rounds: int, seed: int) -> None:
    acceptance, random = Acceptance(), Random(seed)
    for _ in range(n_rounds):
        observe(acceptance, tree, [random.randrange(4) for _ in range(5)])
    survival = acceptance.survival(NEW, "d", tree)
    assert survival.dtype == np.float32
    profile = acceptance.profile("d")
    for node, parent in enumerate(tree.parents.tolist()):
        above, claim = (float(survival[parent]), float(tree.survival[parent])) if parent >= 0 else (1.0, 1.0)
        assert 0.0 <= survival[node] <= above
        fraction = float(tree.survival[node]) / claim if claim else 0.0
        step = profile.step_of(int(depths(tree)[node]) - 1, fraction)
        assert survival[node] == pytest.approx(above * step, abs=1e-6 if above > 0.0101 else 0.0101)


def test_calibration_keeps_the_tree_and_names_its_source() -> None:
    tree = tree_of([5, 6, 7], [-1, 0, -1], [0.5, 0.25, 0.125])
    calibrated, _ = Acceptance().calibrate(0, "d", 3, tree, 0)
    assert calibrated.tokens is tree.tokens
    assert calibrated.parents is tree.parents
    assert calibrated.sources.tolist() == [3, 3, 3]


def test_a_new_drafter_is_believed_in_part() -> None:
    survival = Acceptance().survival(NEW, "d", claimed(0.9))
    assert 0.5 < survival[0] < 0.85


def test_random_tokens_with_a_claim_of_99_percent_are_found_out_within_a_few_rounds() -> None:
    acceptance = Acceptance()
    first = []
    for _ in range(12):
        first.append(float(acceptance.survival(NEW, "d", claimed(0.99))[0]))
        observe(acceptance, claimed(0.99), [99])
    assert first[3] < 0.4
    assert first[6] < 0.25
    assert first[11] < 0.15


def test_once_found_out_its_other_claims_are_doubted_too() -> None:
    acceptance = Acceptance()
    for _ in range(20):
        observe(acceptance, claimed(0.99), [99])
    assert acceptance.survival(NEW, "d", claimed(0.5))[0] < 0.2
    assert acceptance.survival(NEW, "other", claimed(0.5))[0] > 0.3


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.85, 0.97])
@pytest.mark.parametrize("claim", [0.2, 0.6, 0.99])
def test_any_claim_is_corrected_to_what_comes_true(rate: float, claim: float) -> None:
    acceptance = Acceptance()
    train(acceptance, claim, rate, 300)
    survival = acceptance.survival(NEW, "d", claimed(claim))
    assert float(survival[0]) == pytest.approx(rate, abs=0.1)
    assert acceptance.profile("d").acceptance == pytest.approx(rate, abs=0.1)
    assert acceptance.profile("d").expected(2) == pytest.approx([rate, rate**2], abs=0.13)


def test_claims_that_mean_something_are_told_apart() -> None:
    acceptance, random = Acceptance(), Random(3)
    for _ in range(400):
        rate = random.choice([0.2, 0.9])
        observe(acceptance, chain([0], [0.35 if rate < 0.5 else 0.65]), [0 if random.random() < rate else 99])
    assert acceptance.survival(NEW, "d", chain([0], [0.35]))[0] == pytest.approx(0.2, abs=0.12)
    assert acceptance.survival(NEW, "d", chain([0], [0.65]))[0] == pytest.approx(0.9, abs=0.12)


def test_depths_are_told_apart() -> None:
    acceptance, random = Acceptance(), Random(4)
    for _ in range(300):
        n_right = 0 if random.random() < 0.1 else 1 if random.random() < 0.7 else 2
        observe(acceptance, claimed(0.6, 2), truth(n_right, 2))
    first, second = acceptance.survival(NEW, "d", claimed(0.6, 2)).tolist()
    assert first > 0.75
    assert second / first < 0.5


def test_what_lies_behind_the_first_wrong_token_is_not_counted() -> None:
    acceptance = Acceptance()
    observe(acceptance, claimed(0.6), [0, 1, 77, 3])
    assert acceptance.profile("d").n_steps == 3


def test_every_child_of_an_accepted_node_is_counted() -> None:
    acceptance = Acceptance()
    tree = tree_of([1, 2, 3, 4, 5], [-1, -1, 1, 1, 0], [0.4, 0.6, 0.3, 0.2, 0.3])
    observe(acceptance, tree, [2, 4, 9])
    assert acceptance.profile("d").n_steps == 4


@given(trees(max_nodes=10, siblings_differ=True), st.lists(st.integers(0, 3), max_size=8), st.data())
def test_a_text_committed_in_parts_scores_like_one_committed_at_once(
    tree: DraftTree, text: list[int], data: st.DataObject
) -> None:
    at_once, in_parts = Acceptance(), Acceptance()
    _, watch = at_once.calibrate(0, "d", 0, tree, 0)
    open_once = watch.advance(text)
    _, watch = in_parts.calibrate(0, "d", 0, tree, 0)
    open_parts = bool(len(tree))
    rest = list(text)
    while rest and open_parts:
        n = data.draw(st.integers(1, len(rest)))
        open_parts = watch.advance(rest[:n])
        rest = rest[n:]
    assert open_parts == (open_once if text else bool(len(tree)))
    assert at_once.profile("d").n_steps == in_parts.profile("d").n_steps
    # Branches are then scored in another order, and later observations weigh a little more.
    assert at_once.survival(NEW, "d", tree) == pytest.approx(in_parts.survival(NEW, "d", tree), abs=0.03)
    assert at_once.profile("d").trust == pytest.approx(in_parts.profile("d").trust, abs=0.03)


def test_a_proposal_nobody_verified_is_scored_as_the_text_goes_on() -> None:
    acceptance = Acceptance()
    _, watch = acceptance.calibrate(0, "d", 0, claimed(0.6), 10)
    for position, token in enumerate([0, 1, 2], start=10):
        acceptance.score(0, "d", watch if position == 10 else None, position, [token])
        assert acceptance.profile("d").n_steps == position - 9


def test_of_overlapping_proposals_the_oldest_is_followed() -> None:
    acceptance = Acceptance()
    for position in range(10, 13):
        tree = chain(list(range(position, position + 4)), [0.6, 0.36, 0.2, 0.1])
        _, watch = acceptance.calibrate(0, "d", 0, tree, position)
        acceptance.score(0, "d", watch, position, [position])
    assert acceptance.profile("d").n_steps == 3 + 2


def test_another_answer_under_the_same_number_is_not_held_against_a_proposal() -> None:
    acceptance = Acceptance()
    observe(acceptance, claimed(0.6), [0], position=10)
    acceptance.score(0, "d", None, 30, [99])
    assert acceptance.profile("d").n_steps == 1
    observe(acceptance, claimed(0.6), [0], position=10)
    acceptance.forget(0)
    acceptance.score(0, "d", None, 11, [99])
    assert acceptance.profile("d").n_steps == 2


def test_what_broken_off_answers_leave_behind_does_not_pile_up() -> None:
    acceptance = Acceptance()
    for sequence in range(200):
        _, watch = acceptance.calibrate(0, "d", 0, claimed(0.6), 0)
        acceptance.score(sequence, "d", watch, 0, [0])
    assert sum(acceptance.follows(sequence) for sequence in range(200)) == 64
    assert acceptance.follows(199)
    assert not acceptance.follows(0)


def test_watch_reports_how_far_it_came_true() -> None:
    watch = Watch(Profile(), Tally(), [1, 2, 3], [-1, 0, 1], [0.5, 0.3, 0.2], 0)
    assert watch.advance([1])
    assert not watch.advance([2, 8])
    assert watch.n_right == 2


def test_a_text_that_disappoints_is_believed_less_than_others_and_one_that_delights_no_more() -> None:
    acceptance = Acceptance()
    train(acceptance, 0.6, 0.7, 200)
    general = acceptance.survival(NEW, "d", claimed(0.6)).tolist()
    for sequence, n_right in ((1, 0), (2, 4)):
        for _ in range(6):
            _, watch = acceptance.calibrate(sequence, "d", 0, claimed(0.6), 0)
            acceptance.score(sequence, "d", watch, 0, truth(n_right))
    disappointing = acceptance.survival(1, "d", claimed(0.6)).tolist()
    delighting = acceptance.survival(2, "d", claimed(0.6)).tolist()
    assert disappointing[0] < 0.6 * general[0]
    assert delighting == acceptance.survival(NEW, "d", claimed(0.6)).tolist()
    assert acceptance.expected(1, "d", 3)[0] < acceptance.expected(NEW, "d", 3)[0]


def test_a_texts_record_is_forgotten_with_it() -> None:
    acceptance = Acceptance()
    for _ in range(10):
        observe(acceptance, claimed(0.9), truth(0))
    assert acceptance.tally(0, "d").factor < 0.7
    acceptance.forget(0)
    assert acceptance.tally(0, "d").factor == 1.0


def test_records_of_texts_that_were_broken_off_do_not_pile_up() -> None:
    acceptance = Acceptance()
    for sequence in range(1000):
        acceptance.tally(sequence, "d")
    assert len(acceptance._tallies) < 100


# -- between runs -----------------------------------------------------------------------------------------------------


def kept(acceptance: Acceptance) -> Acceptance:
    return Acceptance.from_text(acceptance.to_text())


@pytest.mark.parametrize("rate", [0.1, 0.85])
def test_another_run_begins_with_what_was_learnt_of_every_drafter(rate: float) -> None:
    acceptance = Acceptance()
    train(acceptance, 0.6, rate, 200)
    observe(acceptance, claimed(0.3), truth(2), name="e")
    again = kept(acceptance)
    survival = float(again.survival(NEW, "d", claimed(0.6))[0])
    assert survival == pytest.approx(rate, abs=0.2)
    assert abs(survival - rate) < abs(float(Acceptance().survival(NEW, "d", claimed(0.6))[0]) - rate)
    assert again.profile("d").expected(1)[0] == pytest.approx(rate, abs=0.35)
    assert list(again.profiles) == ["d", "e"]
    assert again.profile("d").n_steps == 0  # of this run


@pytest.mark.parametrize(("before", "now"), [(0.95, 0.05), (0.05, 0.95)])
def test_a_new_domain_is_learnt_nearly_as_fast_as_if_nothing_were_known(before: float, now: float) -> None:
    taught = Acceptance()
    train(taught, 0.6, before, 300)
    fresh, again = Acceptance(), kept(taught)
    for acceptance in (fresh, again):
        train(acceptance, 0.6, now, 12, seed=3)
    found = [float(acceptance.survival(NEW, "d", claimed(0.6))[0]) for acceptance in (fresh, again)]
    assert abs(found[1] - now) <= abs(found[0] - now) + 0.15


def test_what_was_kept_is_kept_again_unchanged_however_often_nothing_is_learnt() -> None:
    acceptance = Acceptance()
    train(acceptance, 0.6, 0.8, 100)
    once = kept(acceptance)
    assert kept(kept(once)).to_text() == once.to_text()


def test_what_is_known_of_a_text_is_not_kept() -> None:
    acceptance = Acceptance()
    for _ in range(10):
        observe(acceptance, claimed(0.9), truth(0))
    again = kept(acceptance)
    assert again.tally(0, "d").factor == 1.0
    assert not again.follows(0)


def test_the_text_is_small() -> None:
    acceptance, random = Acceptance(), Random(6)
    for _ in range(400):
        observe(acceptance, claimed(random.random(), 12), truth(random.randrange(12), 12))
    assert len(acceptance.to_text()) < 2500


def test_recalling_leaves_alone_what_this_run_has_learnt() -> None:
    earlier, acceptance = Acceptance(), Acceptance()
    train(earlier, 0.6, 0.9, 50)
    observe(earlier, claimed(0.6), truth(1), name="e")
    observe(acceptance, claimed(0.6), truth(0))
    own = acceptance.profile("d")
    acceptance.recall(earlier)
    assert acceptance.profile("d") is own
    assert acceptance.profile("e") is earlier.profile("e")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version":1}',
        '{"version":2,"profiles":{}}',
        '{"version":1,"profiles":[]}',
        '{"version":1,"profiles":{"d":7}}',
        '{"version":1,"profiles":{"d":[[0,1]]}}',
        '{"version":1,"profiles":{"d":[[0,2,1]]}}',
        '{"version":1,"profiles":{"d":[[0,-1,1]]}}',
        '{"version":1,"profiles":{"d":[[0,1,NaN]]}}',
        '{"version":1,"profiles":{"d":[[0,0,0]]}}',
        '{"version":1,"profiles":{"d":[[0.5,1,2]]}}',
        '{"version":1,"profiles":{"d":[[900,1,2]]}}',
        '{"version":1,"profiles":{"d":[["0",1,2]]}}',
        '{"version":1,"profiles":{"d":[[0,"1",2]]}}',
        '{"version":1,"profiles":{"d":[[0,1,1e999]]}}',
    ],
)
def test_any_other_text_is_no_acceptance(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Acceptance.from_text(text)


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0.0, 1.0), st.booleans()), max_size=200))
def test_whatever_was_seen_can_be_kept_and_is_a_probability(steps: list[tuple[int, float, bool]]) -> None:
    acceptance = Acceptance()
    for depth, claim, right in steps:
        acceptance.profile("d").observe(depth, claim, right)
    survival = kept(acceptance).survival(NEW, "d", claimed(0.9, 6)).tolist()
    assert all(0.0 <= s <= 1.0 for s in survival)
    assert survival == sorted(survival, reverse=True)
