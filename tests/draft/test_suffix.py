"""The drafter against a plain twin that counts every place of every suffix, and its behaviour over rounds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft import suffix
from edgespec.draft.corpus import Corpus
from edgespec.draft.grown import HOPELESS
from edgespec.draft.suffix import SuffixDrafter
from edgespec.spec.ports import Needs, Plan
from edgespec.spec.tree import EMPTY, DraftTree, check_tree, is_chain, n_leaves
from tests.draft.fake import NoRows, commit_of, play, prompt_of
from tests.draft.test_contract import Follower, Round, prompts, rounds
from tests.draft.test_suffix_tree import longest_before, longest_in, places_of

CHAIN = Plan(max_nodes=6)
NO_NODES = prompt_of(())
small_texts = st.lists(st.integers(0, 2), max_size=24)


def corpus_of(*texts: Sequence[int]) -> Corpus:
    corpus = Corpus()
    corpus.include(texts)
    return corpus


def drafter_on(prompt: Sequence[int], *others: Sequence[int]) -> SuffixDrafter:
    drafter = SuffixDrafter(corpus_of(*others)) if others else SuffixDrafter()
    drafter.begin(0, prompt_of(prompt))
    return drafter


def drafted(drafter: SuffixDrafter, plan: Plan = CHAIN, sequence: int = 0) -> list[int]:
    tokens: list[int] = drafter.propose(sequence, plan).tokens.tolist()
    return tokens


def say(drafter: SuffixDrafter, *tokens: int, sequence: int = 0) -> None:
    drafter.observe(sequence, commit_of(tokens), NoRows(), NO_NODES)


def paths_of(tree: DraftTree) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return paths


# -- the plain twin ---------------------------------------------------------------------------------------------------


def chance(kind: int, length: int, n_agreeing: int, n_places: int) -> float:
    """The starting rate of a situation, looked up in the plainest way."""
    bucket = max(i for i, least in enumerate(suffix._BUCKETS) if min(length, 32) >= least)
    alone = suffix._LENGTH_RATES[bucket]
    share = n_agreeing / n_places
    factor = next(f for f, least in zip(suffix._SHARE_FACTORS, (0.75, 0.4, 0.15, 0.0), strict=True) if share >= least)
    rate = alone * factor
    if n_agreeing == n_places:
        rate = alone if n_places == 1 else 0.55 + 0.44 * alone
    return rate if kind == 0 else 0.6 * rate


def what_followed(text: list[int], others: Sequence[Sequence[int]], path: tuple[int, ...]) -> dict[int, float]:
    """token -> chance, from all places of the longest suffixes that were followed by `path`."""
    best: dict[int, float] = {}
    length, ends = longest_before(text)
    grown = [*text, *path]
    own = [grown[end + 1 : end + 2 + len(path)] for end in ends]
    least, n_places = longest_in(text, others)
    tail = text[len(text) - least :]
    rest = [list(other[end + 1 : end + 2 + len(path)]) for other in others for end in places_of(tail, other)]
    groups = [(0, length, own)] if length else []
    groups += [(1, least, rest)] if least >= 2 and n_places else []
    for kind, n_matched, followers in groups:
        counts = Counter(f[-1] for f in followers if len(f) > len(path) and tuple(f[:-1]) == path)
        for token, n in counts.items():
            rate = chance(kind, n_matched + len(path), n, counts.total())
            best[token] = max(best.get(token, 0.0), rate)
    return best


def all_paths(text: list[int], others: Sequence[Sequence[int]], depth: int) -> dict[tuple[int, ...], float]:
    known: dict[tuple[int, ...], float] = {(): 1.0}
    paths: list[tuple[int, ...]] = [()]
    for path in paths:
        for token, rate in what_followed(text, others, path).items() if len(path) < depth else ():
            below = (*path, token)
            if known[path] * rate >= HOPELESS:
                known[below] = known[path] * rate
                paths.append(below)
    del known[()]
    return known


@settings(deadline=None, max_examples=150)
@given(small_texts, st.lists(st.lists(st.integers(0, 2), max_size=12), max_size=2), st.integers(1, 6))
def test_the_tree_is_what_counting_every_place_gives(text: list[int], others: list[list[int]], n: int) -> None:
    tree = drafter_on(text, *others).propose(0, Plan(n, max_leaves=99))
    known = all_paths(text, others, depth=n)
    assert [known[path] for path in paths_of(tree)] == pytest.approx(tree.survival.tolist(), rel=1e-6)
    assert tree.survival.tolist() == pytest.approx(sorted(known.values(), reverse=True)[:n], rel=1e-6)


@settings(deadline=None)
@given(small_texts, st.lists(small_texts, max_size=3), st.integers(0, 16), st.integers(0, 5))
def test_every_tree_fits_the_plan(text: list[int], others: list[list[int]], n: int, leaves: int) -> None:
    tree = drafter_on(text, *others).propose(0, Plan(n, leaves))
    check_tree(tree, 3)
    assert len(tree) <= n
    assert n_leaves(tree) <= leaves
    assert len(set(paths_of(tree))) == len(tree)
    assert leaves != 1 or is_chain(tree)


@settings(deadline=None)
@given(prompts, st.lists(st.tuples(rounds, st.integers(0, 1)), max_size=15), st.integers(0, 50))
def test_the_index_is_the_committed_text_in_any_run_of_rounds(
    prompt: list[int], played: list[tuple[Round, int]], salt: int
) -> None:
    drafter = SuffixDrafter(corpus_of([*prompt, 1, 2, 3]))
    follower = Follower(drafter, drafter.indexed, counts_prompt=True)
    for sequence in (0, 1):
        follower.begin(sequence, prompt[sequence:])
    for one, sequence in played:
        follower.round(sequence, one, salt)
    follower.begin(0, prompt)
    for sequence in (0, 0, 1):
        drafter.end(sequence)


# -- the request ------------------------------------------------------------------------------------------------------


def test_it_drafts_what_followed_before_and_goes_on_periodically_at_the_end() -> None:
    assert drafted(drafter_on([*range(1, 10), 1, 2, 3]), Plan(4)) == [4, 5, 6, 7]
    assert drafted(drafter_on([1, 2, 3, 4, 1, 2, 3])) == [4, 1, 2, 3, 4, 1]
    assert drafted(drafter_on([5, 5, 5, 5])) == [5] * 6


def test_the_more_frequent_of_two_followers_is_the_draft_whatever_came_last() -> None:
    drafter = drafter_on([1, 2, 3, 50, 1, 2, 3, 50, 1, 2, 3, 50, 1, 2, 3, 60, 1, 2, 3])
    assert drafted(drafter, Plan(1)) == [50]
    tree = drafter.propose(0, Plan(8, 4))
    first = [t for t, p in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True) if p < 0]
    assert first == [50, 60]


def test_places_that_agree_promise_more_than_one_place_and_that_more_than_places_that_differ() -> None:
    def promise(*text: int) -> float:
        return float(drafter_on(text).propose(0, Plan(1)).survival[0])

    alone, agreeing = promise(1, 2, 3, 9, 1, 2), promise(1, 2, 3, 9, 1, 2, 3, 8, 1, 2)
    assert promise(1, 2, 3, 9, 1, 2, 4, 8, 1, 2) < alone < agreeing
    assert promise(1, 2, 3, 9, 1, 2) < promise(1, 2, 3, 9, 8, 7, 1, 2, 3, 9, 8)


@pytest.mark.parametrize("prompt", [[], [1], [1, 2, 3, 4]])
def test_a_text_without_repetition_gives_no_draft(prompt: list[int]) -> None:
    assert drafter_on(prompt).propose(0, CHAIN) is EMPTY


def test_a_hopeless_situation_is_not_drafted_from() -> None:
    """After token 7 comes a new token each time: what is said of single tokens sinks until it is silent."""
    drafter = drafter_on([7])
    lengths = []
    for i in range(200):
        say(drafter, 1000 + i, 7)
        lengths.append(len(drafter.propose(0, Plan(1))))
    assert lengths[1] == 1
    assert lengths[-1] == 0


def test_a_wrong_guess_lowers_what_the_next_of_its_kind_promises() -> None:
    promises = []
    for truth in (4, 99):
        drafter = drafter_on([*range(1, 9), *range(11, 19), 1, 2, 3])
        assert drafted(drafter)[0] == 4
        say(drafter, truth)
        say(drafter, 77, 11, 12, 13)
        promises.append(float(drafter.propose(0, Plan(1)).survival[0]))
    assert promises[1] < promises[0]


def test_a_cut_walk_judges_only_what_it_reached() -> None:
    """The limit came after two tokens: what the draft said behind them is neither right nor wrong."""
    drafter, untouched = drafter_on([*range(1, 9), 1, 2, 3]), drafter_on([*range(1, 9), 1, 2, 3])
    drafted(drafter)
    drafter.observe(0, commit_of([4, 5], path=[0]), NoRows(), np.arange(6, dtype=np.int32))
    say(untouched, 4, 5)
    assert (drafter.propose(0, Plan(3)).survival >= untouched.propose(0, Plan(3)).survival).all()


def test_rejected_tokens_are_not_indexed_and_the_next_turn_reads_only_what_is_new() -> None:
    drafter = drafter_on([1, 2, 3, 4, 1, 2, 3])
    assert drafted(drafter)[0] == 4
    say(drafter, 9)
    assert drafter.indexed(0) == (1, 2, 3, 4, 1, 2, 3, 9)
    drafter.begin(0, prompt_of([1, 2, 3, 4, 1, 2, 3, 9, 30]))
    assert drafter.n_indexed == 9
    drafter.begin(0, prompt_of([1, 2, 5]))
    assert drafter.n_indexed == 12
    assert drafter.indexed(0) == (1, 2, 5)


def test_sequences_do_not_mix_and_an_ended_one_is_forgotten() -> None:
    drafter = drafter_on([1, 2, 3, 4, 1, 2, 3])
    drafter.begin(1, prompt_of([1, 2, 3]))
    assert drafted(drafter, sequence=1) == []
    drafter.end(0)
    drafter.end(0)
    with pytest.raises(KeyError):
        drafter.propose(0, CHAIN)
    drafter.anticipate(1, EMPTY)
    assert drafter.behind(1) == 0
    assert drafter.needs == Needs.TOKENS


# -- the corpus -------------------------------------------------------------------------------------------------------


def test_the_corpus_is_drafted_from_but_not_on_the_strength_of_a_single_token() -> None:
    assert drafted(drafter_on([50, 1, 2], [1, 2, 3, 4, 5])) == [3, 4]
    assert drafted(drafter_on([50, 2], [1, 2, 3, 4, 5])) == []
    assert drafted(drafter_on([2], [2, 3])) == []


def test_counts_of_all_texts_decide_together() -> None:
    texts = ([9, 1, 2, 30], [8, 1, 2, 40], [7, 1, 2, 40])
    assert drafted(drafter_on([50, 1, 2], *texts), Plan(1)) == [40]


def test_the_longest_match_is_followed_wherever_it_stands() -> None:
    texts = ([1, 2, 3, 4, 30], [2, 3, 4, 40], [3, 4, 50])
    assert drafted(drafter_on([60, 1, 2, 3, 4], *texts), Plan(1)) == [30]


def test_places_in_several_indexes_count_together_and_only_the_longest_of_them() -> None:
    corpus = corpus_of([9, 1, 2, 30, *range(100, 160)])
    corpus.include([[8, 1, 2, 40, *range(200, 220)]])
    corpus.include([[7, 1, 2, 40]])
    assert len(corpus.snapshot()) == 3
    drafter = SuffixDrafter(corpus)
    drafter.begin(0, prompt_of([50, 1, 2]))
    assert drafted(drafter, Plan(1)) == [40]
    drafter.begin(0, prompt_of([50, 9, 1, 2]))
    tree = drafter.propose(0, Plan(8, 8))
    assert [t for t, p in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True) if p < 0] == [30]


def test_of_two_sources_that_say_the_same_the_surer_one_counts() -> None:
    tree = drafter_on([3, 4, 1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4]).propose(0, Plan(1))
    assert tree.tokens.tolist() == [4]
    assert tree.survival.tolist() == pytest.approx([chance(1, 3, 2, 2)])
    assert chance(1, 3, 2, 2) > chance(0, 1, 1, 1)


def test_behind_a_part_that_differs_a_single_token_is_enough_for_a_while() -> None:
    drafter = drafter_on([50, 1, 2], [*range(1, 30)])
    assert drafted(drafter, Plan(3)) == [3, 4]
    say(drafter, 3, 4, 77)
    say(drafter, 9)
    assert drafted(drafter, Plan(1)) == [10]
    say(drafter, *range(60, 76), 12)
    assert drafted(drafter, Plan(1)) == []


def test_a_sequence_drafts_from_the_corpus_as_it_was_when_it_began() -> None:
    corpus = Corpus()
    drafter = SuffixDrafter(corpus)
    drafter.begin(0, prompt_of([1, 2]))
    corpus.add([1, 2, 3, 4])
    assert drafted(drafter) == []
    drafter.begin(1, prompt_of([1, 2]))
    assert drafted(drafter, sequence=1) == [3, 4]


def forms(n: int) -> list[tuple[list[int], list[int]]]:
    """Prompts and answers: a form of 60 tokens with a value of 1 to 3 tokens of the prompt at every tenth place."""
    rng = random.Random(3)
    form = [rng.randrange(40_000) for _ in range(60)]
    made = []
    for _ in range(n):
        values = [[rng.randrange(40_000) for _ in range(rng.randrange(1, 4))] for _ in range(6)]
        answer = [t for i in range(6) for t in (*values[i], *form[10 * i + 1 : 10 * i + 10])]
        made.append(([t for value in values for t in (*value, 7)], answer))
    return made


def test_filled_in_forms_are_found_again_behind_each_value() -> None:
    """Cold a form costs a pass per token but for the values, warm some passes per value: 9 of 10 tokens are known."""
    *known, (prompt, answer) = forms(5)
    cold, warm = SuffixDrafter(), SuffixDrafter(corpus_of(*(answer for _, answer in known)))
    passes = []
    for drafter in (cold, warm):
        drafter.begin(0, prompt_of(prompt))
        passes.append(play(drafter, 0, answer, Plan(max_nodes=15)).n_passes)
    assert passes[0] > 0.75 * len(answer)
    assert passes[1] < 0.4 * len(answer)


# -- silence ----------------------------------------------------------------------------------------------------------

commits = st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.booleans()), max_size=30)


@given(small_texts, commits, st.one_of(st.none(), small_texts), st.sampled_from([0.34, 0.6, 0.9]))
def test_following_teaches_what_observing_does(
    prompt: list[int], told: list[tuple[list[int], bool]], other: list[int] | None, least_claim: float
) -> None:
    """One is asked in every round, the other only where it has something to say and by chance. Both know the same."""
    others = () if other is None else (other,)
    asked, quick = drafter_on(prompt, *others), drafter_on(prompt, *others)
    said = list(prompt)
    for tokens, short in told:
        expected = drafted(asked)
        if short:
            assert quick.follow(0, tokens, least_claim) in (True, False)
        else:
            if quick._rates.values == asked._rates.values:
                assert drafted(quick) == expected
            say(quick, *tokens)
        say(asked, *tokens)
        said += tokens
    assert quick.indexed(0) == asked.indexed(0) == tuple(said)
    assert quick.n_indexed == asked.n_indexed == len(said)


@given(texts := st.lists(st.integers(0, 3), max_size=40), st.one_of(st.none(), texts))
def test_what_is_silent_without_being_hushed_has_nothing_that_claims_more_than_one_token_would(
    text: list[int], other: list[int] | None
) -> None:
    """Where no two tokens of the text's end stood before, a proposal rests on a single token, which promises little."""
    drafter = drafter_on(text, *(() if other is None else (other,)))
    if drafter.is_silent(0, 0.99) and not drafter._tails[0].length:
        tree = drafter.propose(0, CHAIN)
        agreed = 0.55 + 0.44 * suffix._LENGTH_RATES[0]
        assert not len(tree) or tree.survival[0] <= np.float32(agreed)


def test_it_is_never_silent_where_a_single_token_may_be_told() -> None:
    drafter = drafter_on([1, 2, 3])
    assert not drafter.is_silent(0)
    assert not drafter.is_silent(0, suffix._LENGTH_RATES[0])
    assert drafter.is_silent(0, 0.34)


def test_a_match_that_claims_enough_is_told_and_a_poor_one_one_time_in_eight() -> None:
    drafter = drafter_on([1, 2, 3, 4, 5, 6, 1, 2, 3])  # three tokens at one place: 0.64
    assert not drafter.is_silent(0, 0.64)
    assert [drafter.is_silent(0, 0.65) for _ in range(8)] == [*[True] * 7, False]
    assert not drafter.follow(0, [4], 0.65), "four tokens: 0.68"


def test_it_is_not_silent_where_the_corpus_may_go_on() -> None:
    drafter = drafter_on([9, 1, 2], [1, 2, 3, 4, 5])
    assert drafter.is_silent(0, 0.9), "two tokens are chance"
    assert not drafter.follow(0, [3], 0.9)
    assert drafter.follow(0, [7], 0.9)
    assert drafter.follow(0, [3, 4], 0.9)
    assert not drafter.follow(0, [5], 0.9)


def test_after_a_good_copy_from_the_corpus_it_is_asked_for_a_while() -> None:
    drafter = drafter_on([1, 2], [1, 2, 3, 4, 5, 6, 7, 8])
    drafted(drafter)
    say(drafter, 3, 4, 5)
    for token in range(100, 100 + suffix._ANCHORED - 1):
        assert not drafter.follow(0, [token], 0.9)
    assert drafter.follow(0, [200], 0.9)
