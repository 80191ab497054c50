"""How often a draft is right, on toys: its counts against a plain walk along the texts, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.records import Records
from edgespec.spec import noise
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import Capabilities, FloatArray
from edgespec.tune.agreement import (
    CHAIN,
    RANKS,
    ChainStep,
    PairAcceptance,
    Text,
    measure_acceptance,
    own_texts,
    save_acceptance,
    stored_acceptance,
)
from edgespec.tune.decide import PRIOR_ACCEPTANCE
from tests.draft.toy_step import LogitsOf, ToyStep, toy_limits
from tests.spec.plain_decoding import Asked, plain_fast
from tests.tune.bench import Ticks

GREEDY = SamplingSettings()
MODEL = ToyModel(n_vocab=12, order=3, seed=5)
LIMITS = Capabilities(n_ctx=120, n_vocab=12, max_rows=4, max_chunk=16, max_leaves=1, can_rollback=True)
PROMPTS = ((1, 2, 3), (4,), tuple(i % 12 for i in range(40)), (7, 7))


def told(n_tokens: int = 32, ends: frozenset[int] = frozenset()) -> list[Text]:
    return list(own_texts(ToyTarget(MODEL, LIMITS), PROMPTS, n_tokens, ends, Ticks(1.0)))


def near(share: float) -> LogitsOf:
    """The target's own function, but after every `1 - share` of all texts, where its two best tokens change places."""

    def logits_of(text: tuple[int, ...]) -> FloatArray:
        row: FloatArray = MODEL.logits(list(text)).copy()
        key = noise.mix(len(text))
        for token in text[-4:]:
            key = noise.mix(key ^ (token + 1))
        if float(noise.uniform(key, np.arange(1))[0]) >= share:
            first, second = np.argsort(-row, kind="stable")[:2]
            row[[first, second]] = row[[second, first]]
        return row

    return logits_of


def test_the_target_says_what_plain_decoding_says() -> None:
    for text in told():
        asked = Asked(text.prompt, sampling=GREEDY, max_tokens=32)
        assert text.answer == plain_fast(MODEL, asked).output


def test_an_end_token_ends_a_text_and_what_has_no_room_is_passed_over() -> None:
    usual = told()
    end = usual[0].answer[5]
    for short, long in zip(told(ends=frozenset({end})), usual, strict=True):
        n = long.answer.index(end) + 1 if end in long.answer else len(long.answer)
        assert short.answer == long.answer[:n]
    assert [one.prompt for one in told(100)] == [PROMPTS[0], PROMPTS[1], PROMPTS[3]]


def test_a_target_is_left_as_it_was() -> None:
    target = ToyTarget(MODEL, LIMITS)
    for _ in own_texts(target, PROMPTS, 8, frozenset(), Ticks(1.0)):
        pass
    assert target.length(0) == 0


@pytest.mark.parametrize("max_rows", [1, 3, 8])
@pytest.mark.parametrize("share", [0.0, 0.6, 0.9])
def test_counts_are_those_of_a_walk_along_the_texts(share: float, max_rows: int) -> None:
    texts, logits_of = told(), near(share)
    step = ToyStep(logits_of, toy_limits(12, max_rows=max_rows))
    found = measure_acceptance(step, texts)
    first, ranks, steps = 0, [0] * 13, []
    for text in texts:
        for start, token in enumerate(text.answer):
            known = (*text.prompt, *text.answer[:start])
            rank = 1 + np.argsort(-logits_of(known), kind="stable").tolist().index(token)
            first += rank == 1
            ranks[rank] += 1
        start = 0
        while start < len(text.answer):  # rounds, each with what the draft goes on with by itself
            drafted: list[int] = []
            for depth, token in enumerate(text.answer[start : start + CHAIN]):
                drafted.append(int(np.argmax(logits_of((*text.prompt, *text.answer[:start], *drafted)))))
                steps.append((depth, drafted[-1] == token))
                if drafted[-1] != token:
                    break
            start += sum(a == b for a, b in zip(drafted, text.answer[start:], strict=False)) + 1
    assert found.n_tokens == sum(len(one.answer) for one in texts)
    assert found.top1 == first / found.n_tokens
    assert [(one.depth, one.right) for one in found.steps] == steps
    missed = found.n_tokens - first
    assert found.ranks[0] == pytest.approx((ranks[2] + 8.0 * RANKS[0]) / (missed + 8.0))
    assert list(found.survivals) == sorted(found.survivals, reverse=True)


def test_a_draft_that_is_the_target_survives() -> None:
    found = measure_acceptance(ToyStep(near(1.0), toy_limits(12)), told())
    assert found.top1 == 1.0
    assert found.survivals[0] > 0.98
    assert found.survivals[-1] > 0.8
    assert all(one.right for one in found.steps)


def test_better_drafts_survive_longer() -> None:
    found = [measure_acceptance(ToyStep(near(share), toy_limits(12)), told()) for share in (0.1, 0.5, 0.9)]
    for depth in range(CHAIN):
        curve = [one.survivals[depth] for one in found]
        assert curve == sorted(curve)


def test_a_draft_with_little_room_follows_what_fits() -> None:
    found = measure_acceptance(ToyStep(near(1.0), toy_limits(12, n_ctx=30)), told())
    assert 0 < found.n_tokens < 4 * 32
    assert found.top1 == 1.0


def test_without_a_text_what_is_usual_is_assumed() -> None:
    found = measure_acceptance(ToyStep(near(1.0), toy_limits(12)), [])
    assert (found.n_tokens, found.top1, found.steps) == (0, PRIOR_ACCEPTANCE, ())
    assert found.ranks == pytest.approx(RANKS)
    assert found.survivals == pytest.approx([PRIOR_ACCEPTANCE**depth for depth in range(1, CHAIN + 1)])


# -- experience -----------------------------------------------------------------------------------------------------


def test_a_policy_begins_with_some_of_it_and_soon_knows_better() -> None:
    found = measure_acceptance(ToyStep(near(1.0), toy_limits(12)), told())
    experience = found.experience(("draft", "cascade"))
    assert set(experience.profiles) == {"draft", "cascade"}
    assert experience.profiles["draft"] is not experience.profiles["cascade"]
    profile = experience.profile("draft")
    begun = profile.acceptance
    assert begun > 0.75
    assert profile.n_steps == 0
    for _ in range(12):
        profile.observe(0, 0.9, right=False)
    assert profile.acceptance < 0.4


def test_a_bad_draft_is_expected_to_be_bad() -> None:
    bad = measure_acceptance(ToyStep(near(0.0), toy_limits(12)), told()).experience(("draft",))
    good = measure_acceptance(ToyStep(near(1.0), toy_limits(12)), told()).experience(("draft",))
    assert bad.profile("draft").expected(4)[0] < 0.5 < good.profile("draft").expected(4)[0]


# -- records --------------------------------------------------------------------------------------------------------

CHANCES = st.floats(0.0, 1.0)
ACCEPTANCES = st.builds(
    PairAcceptance,
    st.integers(0, 999),
    CHANCES,
    st.lists(CHANCES, min_size=1, max_size=8).map(tuple),
    st.lists(CHANCES, max_size=4).map(tuple),
    st.lists(st.builds(ChainStep, st.integers(0, CHAIN - 1), CHANCES, st.booleans()), max_size=5).map(tuple),
)


@given(ACCEPTANCES)
def test_it_comes_back_from_its_text(found: PairAcceptance) -> None:
    assert PairAcceptance.from_text(found.to_text()) == found


KEPT = PairAcceptance(9, 0.5, (0.5, 0.25), RANKS, (ChainStep(0, 0.75, True), ChainStep(1, 0.5, False)))


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "nonsense"),
        *(KEPT.to_text().replace("0.25", other) for other in ("NaN", "1.5", "-0.5", '"much"')),
        KEPT.to_text().replace("[1,0.5,0]", "[9,0.5,0]"),
        KEPT.to_text().replace("[1,0.5,0]", "[1,0.5]"),
        KEPT.to_text().replace("[0.5,0.25]", "[]"),
    ],
)
def test_other_texts_are_no_acceptance(text: str) -> None:
    assert text != KEPT.to_text()
    with pytest.raises(ValueError, match=r"."):
        PairAcceptance.from_text(text)


def test_it_is_kept_per_target_draft_and_build(tmp_path: Path) -> None:
    target = tmp_path / "target.gguf"
    target.write_bytes(b"a target")
    records = Records(tmp_path / "pairs.json")
    save_acceptance(target, "draft", "build", records, KEPT)
    assert stored_acceptance(target, "draft", "build", records) == KEPT
    assert stored_acceptance(target, "other", "build", records) is None
    assert stored_acceptance(target, "draft", "other", records) is None
