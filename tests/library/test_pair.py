"""Which drafts fit a target: the same ids mean the same, small tails may differ, and every difference is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.errors import PairMismatch
from edgespec.library.pair import MAX_TAIL, Pairing, pair, pair_step
from edgespec.library.vocabulary import TokenKind, Vocabulary

N = 600
SPELLINGS = tuple(f"t{number}" for number in range(N))
TARGET = Vocabulary("big.gguf", SPELLINGS, (1,) * N, "gpt2", "smollm", 1, 2, None, False)
DRAFT = replace(TARGET, name="small.gguf")


def changed(vocabulary: Vocabulary, token: int, spelling: str, kind: int = TokenKind.NORMAL) -> Vocabulary:
    spellings, kinds = list(vocabulary.spellings), list(vocabulary.kinds)
    spellings[token], kinds[token] = spelling, kind
    return replace(vocabulary, spellings=tuple(spellings), kinds=tuple(kinds))


def longer(vocabulary: Vocabulary, n_more: int) -> Vocabulary:
    more = tuple(f"<pad{number}>" for number in range(n_more))
    kinds = (*vocabulary.kinds, *(TokenKind.UNUSED,) * n_more)
    return replace(vocabulary, spellings=vocabulary.spellings + more, kinds=kinds)


def test_the_same_vocabulary_fits_without_a_word() -> None:
    assert pair(TARGET, DRAFT) == Pairing(N, 0, 0, ())


def test_the_first_differing_id_is_named_with_both_spellings() -> None:
    draft = changed(changed(DRAFT, 17, "il"), 400, "x")
    with pytest.raises(PairMismatch) as caught:
        pair(TARGET, draft)
    assert str(caught.value) == (
        "small.gguf as a draft for big.gguf: token 17 is 'il' to the draft and 't17' to the target; "
        "give a draft of the target's own family, or take --draft auto."
    )


def test_another_tokenizer_is_named_too() -> None:
    with pytest.raises(PairMismatch) as caught:
        pair(TARGET, replace(changed(DRAFT, 0, "<pad>"), model="llama", pre=""))
    assert caught.value.why == (
        "token 0 is '<pad>' to the draft and 't0' to the target (their tokenizers are llama and gpt2/smollm)"
    )


@given(st.sets(st.integers(0, N - 1), max_size=4), st.integers(-300, 300))
def test_it_fits_exactly_if_shared_ids_are_alike_and_the_tail_is_short(differing: set[int], n_more: int) -> None:
    draft = longer(DRAFT, n_more) if n_more > 0 else replace(DRAFT, spellings=SPELLINGS[: N + n_more])
    draft = replace(draft, kinds=())
    spellings = [f"other{i}" if i in differing else text for i, text in enumerate(draft.spellings)]
    draft = replace(draft, spellings=tuple(spellings))
    shared = min(N, N + n_more)
    wrong = sorted(token for token in differing if token < shared)
    if wrong:
        with pytest.raises(
            PairMismatch, match=rf"token {wrong[0]} is 'other{wrong[0]}' to the draft and 't{wrong[0]}'"
        ):
            pair(TARGET, draft)
    elif abs(n_more) > MAX_TAIL:
        with pytest.raises(PairMismatch, match=f"it has {N + n_more} tokens, {abs(n_more)} (more|fewer) than the"):
            pair(TARGET, draft)
    else:
        found = pair(TARGET, draft)
        assert (found.n_shared, found.n_only_target, found.n_only_draft) == (shared, max(0, -n_more), max(0, n_more))
        assert [notice.code for notice in found.notes] == ["draft-vocabulary"] * (n_more != 0)


@pytest.mark.parametrize(("n_more", "sentence"), [(300, "300 more"), (-300, "300 fewer")])
def test_a_long_tail_is_another_vocabulary(n_more: int, sentence: str) -> None:
    target, draft = (TARGET, longer(DRAFT, 300)) if n_more > 0 else (longer(TARGET, 300), DRAFT)
    with pytest.raises(PairMismatch) as caught:
        pair(target, draft)
    assert caught.value.why == (
        f"it has {len(draft)} tokens, {sentence} than the target, and padding explains up to 256"
    )


def test_ids_that_neither_uses_may_be_spelled_as_they_like() -> None:
    """But not where one of them does."""
    spare = changed(TARGET, 9, "<reserved_9>", TokenKind.UNUSED)
    assert pair(spare, changed(DRAFT, 9, "[PAD9]", TokenKind.UNUSED)).notes == ()
    for kind in (TokenKind.NORMAL, TokenKind.CONTROL):
        with pytest.raises(PairMismatch, match="token 9 is"):
            pair(spare, changed(DRAFT, 9, "[PAD9]", kind))


def test_what_differs_without_harm_is_told() -> None:
    draft = replace(DRAFT, bos=None, eos=7, eot=N + 3, adds_bos=True, pre="qwen2")
    notes = pair(TARGET, changed(draft, 4, "t4", TokenKind.CONTROL)).notes
    assert [(note.code, note.message) for note in notes] == [
        ("draft-special-tokens", "the BOS token is not stated in the draft and 1 't1' in the target"),
        ("draft-special-tokens", "the EOS token is 7 't7' in the draft and 2 't2' in the target"),
        (
            "draft-special-tokens",
            f"the EOT token is {N + 3}, which it does not have, in the draft and not stated in the target",
        ),
        ("draft-special-tokens", "whether a text begins with BOS is yes in the draft and no in the target"),
        ("draft-special-tokens", "token ids of another kind in the draft: 1, the first 4 't4'"),
        ("draft-tokenizer", "the tokenizer is gpt2/qwen2 in the draft and gpt2/smollm in the target"),
    ]
    bare = pair(TARGET, Vocabulary("bare", SPELLINGS, bos=1, eos=2, adds_bos=None)).notes
    assert [note.message for note in bare] == [
        "whether a text begins with BOS is not stated in the draft and no in the target",
        "the tokenizer is not stated in the draft and gpt2/smollm in the target",
    ]


def test_tails_are_told() -> None:
    assert pair(longer(TARGET, 64), DRAFT).notes[0].message == (
        "the target's last 64 token ids are unknown to the draft: never guessed"
    )
    assert pair(TARGET, longer(DRAFT, 64)).notes[0].message == (
        "the draft's last 64 token ids are unknown to the target: left out"
    )


def test_a_step_model_fits_by_its_hash() -> None:
    own = TARGET.token_hash()
    assert pair_step(TARGET, "small.step", N, own) == Pairing(N, 0, 0, ())
    longer_target = longer(TARGET, 64)
    found = pair_step(longer_target, "small.step", N, own)
    assert (found.n_shared, found.n_only_target, [note.code for note in found.notes]) == (N, 64, ["draft-vocabulary"])


def test_a_step_model_of_another_vocabulary_is_refused() -> None:
    own = TARGET.token_hash()
    other = changed(TARGET, 5, "x").token_hash()
    for target, n_vocab, token_hash in ((TARGET, N, other), (TARGET, N - 1, own), (TARGET, N + 1, own)):
        with pytest.raises(PairMismatch) as caught:
            pair_step(target, "small.step", n_vocab, token_hash)
        assert str(caught.value) == (
            f"small.step as a draft for big.gguf: it was made for other tokens: {n_vocab} ids with the hash "
            f"{token_hash[:12]}, and the target's 600 have {own[:12]}; give the draft that 'edgespec export' makes "
            "from this model or from one of its family."
        )
    with pytest.raises(PairMismatch, match="300 fewer"):
        pair_step(longer(TARGET, 300), "small.step", N, own)
