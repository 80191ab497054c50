from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft.automaton import SuffixAutomaton
from edgespec.draft.lookup import LookupDrafter
from edgespec.spec.ports import Plan
from edgespec.spec.tree import EMPTY
from tests.draft.fake import NoRows, commit_of, play, prompt_of

CHAIN = Plan(max_nodes=6)
NO_NODES = prompt_of(())


def drafter_on(prompt: Sequence[int], min_match: int = 3) -> LookupDrafter:
    drafter = LookupDrafter(min_match)
    drafter.begin(0, prompt_of(prompt))
    return drafter


def drafted(drafter: LookupDrafter, plan: Plan = CHAIN, sequence: int = 0) -> list[int]:
    tokens: list[int] = drafter.propose(sequence, plan).tokens.tolist()
    return tokens


def say(drafter: LookupDrafter, *tokens: int, sequence: int = 0) -> None:
    drafter.observe(sequence, commit_of(tokens), NoRows(), NO_NODES)


def test_it_drafts_what_followed_before_with_no_minimum_of_history() -> None:
    assert drafted(drafter_on([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3])) == [4, 5, 6, 7, 8, 9]


def test_a_copy_that_reaches_the_end_of_the_text_goes_on_periodically() -> None:
    assert drafted(drafter_on([1, 2, 3, 4, 1, 2, 3])) == [4, 1, 2, 3, 4, 1]
    assert drafted(drafter_on([5, 5, 5, 5])) == [5] * 6


@pytest.mark.parametrize(("min_match", "expected"), [(1, [9]), (2, [9]), (3, [])])
def test_shorter_matches_than_asked_for_are_not_drafted_from(min_match: int, expected: list[int]) -> None:
    assert drafted(drafter_on([1, 2, 9, 3, 1, 2], min_match), Plan(1)) == expected


@pytest.mark.parametrize("prompt", [[], [1], [1, 2, 3, 4]])
def test_a_text_without_repetition_gives_no_draft(prompt: list[int]) -> None:
    assert len(drafter_on(prompt, min_match=1).propose(0, CHAIN)) == 0


def test_a_plan_without_nodes_gives_no_draft() -> None:
    assert drafted(drafter_on([5, 5, 5, 5]), Plan(0)) == []


@given(
    prompt=st.lists(st.integers(0, 3), max_size=12),
    commits=st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.booleans()), max_size=30),
    min_match=st.integers(1, 4),
)
def test_silence_is_an_empty_proposal_and_following_teaches_what_observing_does(
    prompt: list[int], commits: list[tuple[list[int], bool]], min_match: int
) -> None:
    """One is asked in every round, the other only where it does not say that it has nothing to propose."""
    asked, quick = drafter_on(prompt, min_match), drafter_on(prompt, min_match)
    said = list(prompt)
    for tokens, short in commits:
        expected = drafted(asked)
        silent = quick.is_silent(0)
        assert silent == (expected == [])
        if silent and short:
            assert quick.follow(0, tokens) == quick.is_silent(0)
        else:
            assert drafted(quick) == expected
            say(quick, *tokens)
        say(asked, *tokens)
        said += tokens
        assert quick.is_silent(0) == asked.is_silent(0)
    assert quick.indexed(0) == asked.indexed(0) == tuple(said)
    assert quick.n_indexed == asked.n_indexed == len(said)


@given(text=st.lists(st.integers(0, 2), max_size=60), min_match=st.integers(1, 4))
def test_the_match_that_decides_on_silence_is_there_and_never_longer_than_the_longest(
    text: list[int], min_match: int
) -> None:
    drafter = drafter_on([], min_match)
    automaton = SuffixAutomaton()
    for n, token in enumerate(text, 1):
        drafter.follow(0, [token])
        automaton.append(token)
        length = drafter.matched(0)
        assert (length > 0) == (automaton.match_length >= min_match)
        assert length <= automaton.match_length
        assert length == 0 or any(text[i : i + length] == text[n - length : n] for i in range(n - length))


def test_a_match_that_claims_too_little_is_told_one_time_in_eight() -> None:
    drafter = drafter_on([1, 2, 3, 4, 1, 2, 3])  # a match of three, right 45 times of 100 before anything is seen
    assert not drafter.is_silent(0, 0.45)
    assert [drafter.is_silent(0, 0.46) for _ in range(16)] == [*[True] * 7, False] * 2
    assert drafter.follow(0, [4], 0.56), "four tokens: 0.55"
    assert not drafter.follow(0, [1], 0.56), "five of them"


def test_what_was_followed_is_known_when_the_sequence_begins_again() -> None:
    drafter = drafter_on([1, 2, 3])
    drafter.follow(0, [4, 5])
    drafter.begin(0, prompt_of([1, 2, 3, 4, 5, 9]))
    assert drafter.indexed(0) == (1, 2, 3, 4, 5, 9)
    assert drafter.n_indexed == 6
    say(drafter, 2, 3)
    drafter.follow(0, [4])
    assert drafted(drafter, Plan(2)) == [5, 9]


def test_what_was_followed_and_then_dropped_costs_no_index() -> None:
    """A stop string, or a level above that takes other tokens: the text goes on from before them."""
    drafter = drafter_on([1, 2, 3, 4])
    drafter.follow(0, [7, 8])
    drafter.begin(0, prompt_of([1, 2, 3, 4, 9, 1, 2, 3]))
    assert drafter.indexed(0) == (1, 2, 3, 4, 9, 1, 2, 3)
    assert drafter.n_indexed == 8, "the first four were not read again"
    assert drafted(drafter, Plan(2)) == [4, 9]


def test_matches_across_the_border_of_two_commits_are_found() -> None:
    drafter = drafter_on([0])
    say(drafter, 1, 2)
    say(drafter, 3, 4)
    say(drafter, 1)
    say(drafter, 2, 3)
    assert drafted(drafter, Plan(1)) == [4]


def test_rejected_tokens_are_not_indexed() -> None:
    drafter = drafter_on([1, 2, 3, 4, 1, 2, 3])
    assert drafted(drafter)[0] == 4
    say(drafter, 9)
    assert drafter.indexed(0) == (1, 2, 3, 4, 1, 2, 3, 9)


def test_the_latest_place_is_copied_and_an_older_one_is_the_rival() -> None:
    drafter = drafter_on([1, 2, 3, 50, 1, 2, 3, 60, 1, 2, 3])
    assert drafted(drafter, Plan(2)) == [60, 1]
    tree = drafter.propose(0, Plan(max_nodes=12, max_leaves=2))
    first = [t for t, p in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True) if p < 0]
    assert first == [60, 50]
    assert tree.tokens[0] == 60
    assert tree.survival[tree.tokens.tolist().index(50)] < tree.survival[0]


def test_a_failure_does_not_silence_a_match_for_good() -> None:
    drafter = drafter_on([1, 2, 3, 4])
    for wrong in (70, 71, 72):
        say(drafter, 1, 2, 3)
        assert drafted(drafter, Plan(1))
        say(drafter, wrong)
    say(drafter, 1, 2, 3)
    assert drafted(drafter, Plan(1)) == [72]


def test_before_anything_is_seen_survival_climbs_with_the_length_of_the_match() -> None:
    """A copy after 3 equal tokens; each copied token makes the match one longer."""
    survival = drafter_on([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3]).propose(0, CHAIN).survival
    assert survival.tolist() == pytest.approx(np.cumprod([0.45, 0.55, 0.65, 0.65, 0.75, 0.75]).tolist(), rel=1e-6)


def test_longer_matches_promise_more_and_ambiguous_ones_less() -> None:
    block = list(range(100, 160))

    def promise(*text: int) -> float:
        return float(drafter_on(text).propose(0, CHAIN).survival[0])

    assert promise(*block, 0, *block[:3]) < promise(*block, 0, *block[:40])
    assert promise(*block, 0, *block[:3], 9, *block[:3]) < promise(*block, 0, *block[:3])


def test_survival_follows_what_happens() -> None:
    """A text of blocks whose first three tokens repeat and whose fourth never does: the promise must sink."""
    drafter = drafter_on([1, 2, 3])
    promised = []
    for i in range(40):
        say(drafter, 1000 + i, 1, 2, 3)
        tree = drafter.propose(0, CHAIN)
        promised.append(float(tree.survival[0]) if len(tree) else 0.0)
        say(drafter, 5000 + i)
    assert promised[-1] < 0.5 * max(promised[:3])


def test_a_cut_walk_does_not_count_against_the_rest_of_the_draft() -> None:
    """The walk ended at a limit after two accepted tokens: the four behind them were not judged."""
    drafter, untouched = drafter_on([*range(1, 9), 1, 2, 3]), drafter_on([*range(1, 9), 1, 2, 3])
    drafted(drafter)
    drafter.observe(0, commit_of([4, 5], path=[0]), NoRows(), np.arange(6, dtype=np.int32))
    say(untouched, 4, 5)
    assert (drafter.propose(0, CHAIN).survival >= untouched.propose(0, CHAIN).survival).all()


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 2), max_size=30), st.booleans())
def test_beginning_again_gives_the_same_drafts_as_beginning_afresh(
    before: list[int], after: list[int], continues: bool
) -> None:
    prompt = before + after if continues else after
    used, fresh = drafter_on(before), drafter_on(prompt)
    used.begin(0, prompt_of(prompt))
    assert used.indexed(0) == fresh.indexed(0) == tuple(prompt)
    assert drafted(used) == drafted(fresh)


def test_the_next_chat_turn_reads_only_what_is_new() -> None:
    drafter = drafter_on(range(100))
    say(drafter, 200, 201)
    drafter.begin(0, prompt_of([*range(100), 200, 201, 300, 301]))
    assert drafter.n_indexed == 104
    drafter.begin(0, prompt_of([*range(50), 300]))
    assert drafter.n_indexed == 104 + 51
    assert drafter.indexed(0) == (*range(50), 300)


def test_sequences_do_not_mix_and_an_ended_one_is_forgotten() -> None:
    drafter = drafter_on([1, 2, 3, 4, 1, 2, 3])
    drafter.begin(1, prompt_of([1, 2, 3]))
    assert drafted(drafter, sequence=1) == []
    assert drafted(drafter) == [4, 1, 2, 3, 4, 1]
    drafter.end(0)
    drafter.end(0)
    with pytest.raises(KeyError):
        drafter.propose(0, CHAIN)
    drafter.anticipate(1, EMPTY)
    assert drafter.indexed(1) == (1, 2, 3)


def test_tokens_per_pass_on_a_repeated_block() -> None:
    rng = random.Random(11)
    block = [rng.randrange(50_000) for _ in range(400)]
    drafter = drafter_on([*block, 0])
    # Three plain passes until the match counts, then 16 tokens each.
    tally = play(drafter, 0, block, Plan(max_nodes=15))
    assert tally.n_passes == 3 + -(-397 // 16)
