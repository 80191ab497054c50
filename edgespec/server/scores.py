"""Log probabilities in the two shapes that OpenAI's API has for them. Knows no model but by its vocabulary."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from edgespec.events import TokenScore
from edgespec.text.vocab import Vocabulary

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True)
class Scored:
    """A token by the bytes it adds to a text, with its log probability. name: stands for one that adds none."""

    piece: bytes
    logprob: float
    name: str = ""

    @property
    def text(self) -> str:
        return self.piece.decode("utf-8", "replace") or self.name


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of the answer. alternatives: the likeliest tokens in its place, itself perhaps among them, best first."""

    chosen: Scored
    alternatives: tuple[Scored, ...]


class Spelling:
    """How the tokens of one model are written; built once."""

    def __init__(self, vocab: Vocabulary) -> None:
        self._piece = vocab.piece
        self._names = {token: text for text, token in vocab.special_tokens.items()}

    def spelled(self, score: TokenScore) -> ScoredToken:
        ranked = zip(score.top_ids, score.top_logprobs, strict=True)
        alternatives = tuple(self._one(token, logprob) for token, logprob in ranked)
        return ScoredToken(self._one(score.token_id, score.logprob), alternatives)

    def _one(self, token: int, logprob: float) -> Scored:
        return Scored(self._piece(token), logprob, self._names.get(token, ""))


class ScoreWriter:
    """`choices[].logprobs` of one answer, of a chat or of a completion: all at once, or bit by bit in its order."""

    def __init__(self, spelling: Spelling, is_chat: bool) -> None:
        self._spelling = spelling
        self._is_chat = is_chat
        self._places = Places()

    def write(self, scores: Sequence[TokenScore]) -> JsonObject:
        tokens = [self._spelling.spelled(score) for score in scores]
        return chat_logprobs(tokens) if self._is_chat else text_logprobs(tokens, self._places)


class Places:
    """Where tokens begin in the text that they make, in characters. A token that goes on with a character begins with
    it.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._n_decoded = 0

    def next(self, piece: bytes) -> int:
        unfinished, _ = self._decoder.getstate()
        # Two characters: the piece does not go on with the unfinished one, which thereby became U+FFFD.
        ended = len((unfinished + piece[:1]).decode("utf-8", "replace")) - 1 if unfinished and piece else 0
        place = self._n_decoded + ended
        self._n_decoded += len(self._decoder.decode(piece))
        return place


def chat_logprobs(tokens: Sequence[ScoredToken]) -> JsonObject:
    """`choices[].logprobs` of a chat."""
    content = []
    for token in tokens:
        alternatives = [_entry(one) for one in token.alternatives]
        content.append({**_entry(token.chosen), "top_logprobs": alternatives})
    return {"content": content, "refusal": None}


def text_logprobs(tokens: Sequence[ScoredToken], places: Places) -> JsonObject:
    """`choices[].logprobs` of a completion. places: has seen the tokens before these."""
    return {
        "tokens": [token.chosen.text for token in tokens],
        "token_logprobs": [token.chosen.logprob for token in tokens],
        "top_logprobs": [_by_text(token) for token in tokens],
        "text_offset": [places.next(token.chosen.piece) for token in tokens],
    }


def _by_text(token: ScoredToken) -> dict[str, float]:
    """The alternatives and the token itself, as that API has it; of those that read the same the likeliest stands."""
    found: dict[str, float] = {}
    for one in (*token.alternatives, token.chosen):
        found.setdefault(one.text, one.logprob)
    return found


def _entry(one: Scored) -> JsonObject:
    return {"token": one.text, "logprob": one.logprob, "bytes": list(one.piece) if one.piece else None}
