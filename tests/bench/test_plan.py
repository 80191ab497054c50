from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from edgespec.bench.plan import Amount, Turn, turns
from edgespec.bench.prompts import Prompt, Prompts


def prompts(**sizes: int) -> Prompts:
    return {name: tuple(Prompt(f"{name}{i}", name, "x") for i in range(n)) for name, n in sizes.items()}


def planned(listed: Prompts, arms: list[str], amount: Amount, n_tokens: int = 10) -> list[Turn]:
    return list(turns(listed, arms, amount, lambda _prompt, _arm: n_tokens))


def test_two_prompts_and_two_repeats_in_full() -> None:
    found = planned(prompts(a=2, b=1), ["off", "auto"], Amount(per_category=2, n_repeats=2))
    assert [(turn.prompt.id, turn.repeat, turn.arms) for turn in found] == [
        ("a0", 0, ("off", "auto")),
        ("b0", 0, ("auto", "off")),
        ("a1", 0, ("auto", "off")),
        ("a0", 1, ("auto", "off")),
        ("b0", 1, ("off", "auto")),
        ("a1", 1, ("off", "auto")),
    ]


sizes = st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 9), min_size=1)
amounts = st.builds(Amount, st.integers(1, 9), st.integers(1, 4), st.integers(0, 300))


@given(sizes, amounts, st.integers(1, 3), st.integers(0, 30))
def test_order_and_number_of_turns(n_of: dict[str, int], amount: Amount, n_arms: int, n_tokens: int) -> None:
    arms = ["off", "auto", "lookup"][:n_arms]
    listed = prompts(**n_of)
    found = planned(listed, arms, amount, n_tokens)
    assert len({(turn.prompt, turn.repeat) for turn in found}) == len(found)
    assert all(turn.arms in (tuple(arms), tuple(reversed(arms))) for turn in found)
    first = Counter((turn.prompt.id, turn.arms == tuple(arms)) for turn in found)
    for category, prompts_of in listed.items():
        asked = [turn.prompt for turn in found if turn.prompt.category == category and turn.repeat == 0]
        assert asked == list(prompts_of[: len(asked)])
        # As many as asked for; beyond them only while tokens were missing, and then until none are.
        assert len(asked) >= min(amount.per_category, len(prompts_of))
        enough = len(asked) * n_tokens * amount.n_repeats >= amount.min_tokens
        assert enough or len(asked) == len(prompts_of)
        if len(asked) > amount.per_category:
            assert (len(asked) - 1) * n_tokens * amount.n_repeats < amount.min_tokens
        if n_arms > 1:
            for prompt in asked:  # over the repeats both orders are as frequent as can be
                assert abs(first[prompt.id, True] - first[prompt.id, False]) <= 1
            forward = sum(turn.arms == tuple(arms) for turn in found if turn.prompt in asked and turn.repeat == 0)
            assert abs(2 * forward - len(asked)) <= 1
    for repeat in range(1, amount.n_repeats):
        assert [t.prompt for t in found if t.repeat == repeat] == [t.prompt for t in found if t.repeat == 0]


@given(sizes, amounts, st.lists(st.integers(0, 40), min_size=63, max_size=63), st.integers(0, 100))
def test_a_plan_that_was_broken_off_goes_on_as_it_would_have(
    n_of: dict[str, int], amount: Amount, lengths: list[int], n_before: int
) -> None:
    listed = prompts(**n_of)
    ids = [prompt.id for prompts_of in listed.values() for prompt in prompts_of]
    length = dict(zip(ids, lengths, strict=False))
    asked: set[str] = set()

    def tokens_so_far(prompt: Prompt, _arm: str) -> int:
        assert prompt.id in asked
        return length[prompt.id]

    whole: list[Turn] = []
    for turn in turns(listed, ["off", "auto"], amount, tokens_so_far):
        asked.add(turn.prompt.id)
        whole.append(turn)
    # Someone who knows all answers from before, or some of them, plans the same.
    known = {turn.prompt.id for turn in whole[:n_before]}
    again: list[Turn] = []
    for turn in turns(
        listed, ["off", "auto"], amount, lambda prompt, _arm: length[prompt.id] if prompt.id in known else 0
    ):
        known.add(turn.prompt.id)
        again.append(turn)
    assert again == whole


def test_the_arm_with_the_fewest_tokens_decides() -> None:
    def tokens(_prompt: Prompt, arm: str) -> int:
        return 100 if arm == "off" else 25

    found = list(turns(prompts(a=9), ["off", "auto"], Amount(1, 2, min_tokens=150), tokens))
    assert len(found) == 2 * 3  # 3 prompts, 25 tokens each, twice
