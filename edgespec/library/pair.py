"""Does a draft fit a target? It does if every token id that both have means the same to both.

A draft guesses ids of the target and reads ids of the target, so how either would split a text does not matter, and a
wrong guess costs time, never a token. Compares what it is given; opens no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgespec.errors import PairMismatch
from edgespec.events import Notice
from edgespec.library.vocabulary import TokenKind, Vocabulary

# Makers pad the table of tokens to a multiple of 64, 128 or 256 rows, each size of a family by its own rule, and add a
# few tags for their chat models. Such ids are hardly ever written. More of them mean another vocabulary.
MAX_TAIL = 256

_REMEDY = "give a draft of the target's own family, or take --draft auto"
_STEP_REMEDY = "give the draft that 'edgespec export' makes from this model or from one of its family"


@dataclass(frozen=True, slots=True)
class Pairing:
    """A draft that fits. n_only_target, n_only_draft: ids at the end that only the one has; one of them is 0.
    notes: what differs all the same and costs no exactness.
    """

    n_shared: int
    n_only_target: int
    n_only_draft: int
    notes: tuple[Notice, ...]


def pair(target: Vocabulary, draft: Vocabulary) -> Pairing:
    """Two GGUF models. Raises PairMismatch, which names the first id that differs with both spellings."""
    n_shared = min(len(target), len(draft))
    token = _first_difference(target, draft, n_shared)
    if token is not None:
        raise PairMismatch(
            f"{draft.name} as a draft for {target.name}",
            f"token {token} is {draft.spellings[token]!r} to the draft and {target.spellings[token]!r} to the target"
            f"{_tokenizers(target, draft)}",
            _REMEDY,
        )
    _require_tail(target, draft.name, len(draft))
    notes = (*_tail_notes(target, len(draft)), *_special_notes(target, draft), *_splitting_notes(target, draft))
    return Pairing(n_shared, len(target) - n_shared, len(draft) - n_shared, notes)


def pair_step(target: Vocabulary, name: str, n_vocab: int, token_hash: str) -> Pairing:
    """A step model, which knows the `Vocabulary.token_hash` of the `n_vocab` ids it was made for. Raises PairMismatch.

    Of a longer vocabulary than the target's only the hash of the whole is known, so it cannot be compared.
    """
    own_hash = target.token_hash(n_vocab) if n_vocab <= len(target) else ""
    if own_hash != token_hash:
        raise PairMismatch(
            f"{name} as a draft for {target.name}",
            f"it was made for other tokens: {n_vocab} ids with the hash {token_hash[:12]}, and the target's "
            f"{len(target)} have {target.token_hash()[:12]}",
            _STEP_REMEDY,
        )
    _require_tail(target, name, n_vocab)
    return Pairing(n_vocab, len(target) - n_vocab, 0, tuple(_tail_notes(target, n_vocab)))


def _first_difference(target: Vocabulary, draft: Vocabulary, n_shared: int) -> int | None:
    """The lowest shared id spelled differently. Ids that neither ever uses may be spelled as they like."""
    if target.spellings[:n_shared] == draft.spellings[:n_shared]:
        return None
    for token in range(n_shared):
        differs = target.spellings[token] != draft.spellings[token]
        if differs and not target.kind(token) == draft.kind(token) == TokenKind.UNUSED:
            return token
    return None


def _require_tail(target: Vocabulary, name: str, n_draft: int) -> None:
    more = n_draft - len(target)
    if abs(more) > MAX_TAIL:
        raise PairMismatch(
            f"{name} as a draft for {target.name}",
            f"it has {n_draft} tokens, {abs(more)} {'more' if more > 0 else 'fewer'} than the target, and padding "
            f"explains up to {MAX_TAIL}",
            _REMEDY,
        )


def _tokenizers(target: Vocabulary, draft: Vocabulary) -> str:
    own, other = _splits_by(draft), _splits_by(target)
    return "" if own == other else f" (their tokenizers are {own} and {other})"


def _tail_notes(target: Vocabulary, n_draft: int) -> Iterator[Notice]:
    more = len(target) - n_draft
    if more > 0:
        yield Notice("draft-vocabulary", f"the target's last {more} token ids are unknown to the draft: never guessed")
    if more < 0:
        yield Notice("draft-vocabulary", f"the draft's last {-more} token ids are unknown to the target: left out")


def _special_notes(target: Vocabulary, draft: Vocabulary) -> Iterator[Notice]:
    """What begins and ends a text. The target decides both, so a draft that differs guesses worse there."""
    for what, own, other in (
        ("BOS", draft.bos, target.bos),
        ("EOS", draft.eos, target.eos),
        ("EOT", draft.eot, target.eot),
    ):
        if own != other:
            stated = f"{_spelled(draft, own)} in the draft and {_spelled(target, other)} in the target"
            yield Notice("draft-special-tokens", f"the {what} token is {stated}")
    if draft.adds_bos != target.adds_bos:
        stated = f"{_yes(draft.adds_bos)} in the draft and {_yes(target.adds_bos)} in the target"
        yield Notice("draft-special-tokens", f"whether a text begins with BOS is {stated}")
    of_another_kind = _kind_differences(target, draft)
    if of_another_kind:
        n, first = len(of_another_kind), _spelled(target, of_another_kind[0])
        yield Notice("draft-special-tokens", f"token ids of another kind in the draft: {n}, the first {first}")


def _kind_differences(target: Vocabulary, draft: Vocabulary) -> list[int]:
    """Shared ids that are, say, a control token in one model only. None where a file states no kinds."""
    if not target.kinds or not draft.kinds or target.kinds == draft.kinds:
        return []
    pairs = zip(target.kinds, draft.kinds, strict=False)
    return [token for token, (own, other) in enumerate(pairs) if own != other]


def _splitting_notes(target: Vocabulary, draft: Vocabulary) -> Iterator[Notice]:
    own, other = _splits_by(draft), _splits_by(target)
    if own != other:
        yield Notice("draft-tokenizer", f"the tokenizer is {own} in the draft and {other} in the target")


def _splits_by(vocabulary: Vocabulary) -> str:
    return "/".join(part for part in (vocabulary.model, vocabulary.pre) if part) or "not stated"


def _spelled(vocabulary: Vocabulary, token: int | None) -> str:
    if token is None:
        return "not stated"
    known = 0 <= token < len(vocabulary)
    return f"{token} {vocabulary.spellings[token]!r}" if known else f"{token}, which it does not have,"


def _yes(flag: bool | None) -> str:
    return {True: "yes", False: "no", None: "not stated"}[flag]
