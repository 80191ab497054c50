"""Log probabilities in the two shapes that OpenAI's API has for them. Knows no model: tokens come with their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True)
class Scored:
    """A token by its bytes with the natural logarithm of its probability under the target's law."""

    piece: bytes
    logprob: float

    @property
    def text(self) -> str:
        return self.piece.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of the answer. alternatives: the likeliest tokens in its place, itself perhaps among them, best first."""

    chosen: Scored
    alternatives: tuple[Scored, ...]


def chat_logprobs(tokens: Sequence[ScoredToken]) -> JsonObject:
    """`choices[].logprobs` of a chat."""
    content = []
    for token in tokens:
        alternatives = [_entry(one) for one in token.alternatives]
        content.append({**_entry(token.chosen), "top_logprobs": alternatives})
    return {"content": content, "refusal": None}


def text_logprobs(tokens: Sequence[ScoredToken], offset: int = 0) -> JsonObject:
    """`choices[].logprobs` of a completion. offset: characters before the first of these tokens. Of alternatives that
    read the same the likeliest stands.
    """
    offsets, pieces = [], b""
    for token in tokens:
        offsets.append(offset + len(pieces.decode("utf-8", "ignore")))
        pieces += token.chosen.piece
    return {
        "tokens": [token.chosen.text for token in tokens],
        "token_logprobs": [token.chosen.logprob for token in tokens],
        "top_logprobs": [{one.text: one.logprob for one in reversed(token.alternatives)} for token in tokens],
        "text_offset": offsets,
    }


def _entry(one: Scored) -> JsonObject:
    return {"token": one.text, "logprob": one.logprob, "bytes": list(one.piece)}
