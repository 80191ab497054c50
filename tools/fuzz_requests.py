"""Requests to the server drawn by a seed: every one is valid, and together they use every parameter there is.

Contract: the same seed and number give the same request. Knows no server; of the model only its tokens.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

JsonObject = dict[str, object]

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
WORDS = (
    "the", "old", "man", "river", "bridge", "water", "children", "village", "summer", "stone", "dog", "world", "memory",
    "answer", "question", "small", "red", "17", "3.14", "yes", "no", "perhaps", "café", "naïve", "straße", "日本", "🙂",
    "x=1;", "return", "(a+b)", "#", "\n", "<|im_end|>", '"quoted"', '{"k":', "[1,", "2]}",
)  # fmt: skip
STOPS = ("e", "th", "\n", ". ", "river", "the old", "é", "}", "zzzz", "a b")
SCHEMAS: tuple[JsonObject, ...] = (
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
    {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
)
# What may be drafted from without a second model; several at a time, too.
DRAFTS = ("lookup", "suffix", "recycle", "lookahead", "jacobi", "suffix,recycle", "lookup,recycle", "auto")


@dataclass(frozen=True, slots=True)
class Case:
    """body: without the `edgespec` object, which says how it is asked. draft: what shall not change the answer."""

    number: int
    path: str
    body: JsonObject
    draft: str

    @property
    def is_chat(self) -> bool:
        return self.path == CHAT

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True

    def asked(self, draft: str, exact: bool) -> JsonObject:
        return {**self.body, "edgespec": {"draft": draft, "exact": exact, "token_ids": True}}


class Maker:
    """n_vocab: of the model. scored: whether log probabilities may be asked for. most_tokens: of an answer."""

    def __init__(self, seed: int, n_vocab: int, scored: bool, most_tokens: int = 48) -> None:
        self._seed = seed
        self._n_vocab = n_vocab
        self._scored = scored
        self._most_tokens = most_tokens

    def case(self, number: int) -> Case:
        rng = random.Random(f"{self._seed}/{number}")
        chat = rng.random() < 0.6
        body = {**(_chat(rng) if chat else self._text(rng)), **_sampling(rng), **self._ends(rng), **_sending(rng)}
        body.update(self._bias(rng))
        if self._scored and rng.random() < 0.5:
            n_top = rng.randrange(6)
            body.update({"logprobs": True, "top_logprobs": n_top} if chat else {"logprobs": n_top})
        if rng.random() < 0.15:
            body["prediction"] = {"type": "content", "content": _prose(rng, 12)}
        return Case(number, CHAT if chat else TEXT, body, rng.choice(DRAFTS))

    def _text(self, rng: random.Random) -> JsonObject:
        if rng.random() < 0.2:
            few = [rng.randrange(min(256, self._n_vocab)) for _ in range(rng.randint(1, 8))]
            return {"prompt": few * rng.randint(1, 6)}
        return {"prompt": _prose(rng, 40)}

    def _ends(self, rng: random.Random) -> JsonObject:
        ends: JsonObject = {"max_tokens": rng.randint(1, self._most_tokens)}
        if rng.random() < 0.4:
            ends["stop"] = rng.choice(STOPS) if rng.random() < 0.5 else rng.sample(STOPS, rng.randint(1, 4))
        return ends

    def _bias(self, rng: random.Random) -> JsonObject:
        if rng.random() < 0.75:
            return {}
        few = rng.sample(range(self._n_vocab), rng.randint(1, 5))
        return {"logit_bias": {str(token): rng.choice((-100, -5.0, -1, 1.5, 4)) for token in few}}


def _prose(rng: random.Random, most_words: int) -> str:
    """Words with runs of them said again, so that there is something to draft."""
    words: list[str] = []
    while len(words) < most_words // 2:
        run = [rng.choice(WORDS) for _ in range(rng.randint(1, 6))]
        words += run * rng.choice((1, 1, 2, 3))
    return " ".join(words[:most_words])


def _chat(rng: random.Random) -> JsonObject:
    messages = [{"role": "system", "content": _prose(rng, 8)}] if rng.random() < 0.4 else []
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        messages += [{"role": "user", "content": _prose(rng, 12)}, {"role": "assistant", "content": _prose(rng, 12)}]
    body: JsonObject = {"messages": [*messages, {"role": "user", "content": _prose(rng, 30)}]}
    form = rng.random()
    if form < 0.08:
        body["response_format"] = {"type": "json_object"}
    elif form < 0.16:
        named = {"name": "shape", "schema": rng.choice(SCHEMAS)}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body


def _sampling(rng: random.Random) -> JsonObject:
    chosen: JsonObject = {"seed": rng.choice((0, 1, -1, 2**63, rng.getrandbits(32)))}
    chosen["temperature"] = rng.choice((0.0, 0.0, 0.3, 0.8, 1.0, 1.6))
    choices: tuple[tuple[str, tuple[float, ...]], ...] = (
        ("top_p", (0.1, 0.7, 0.95)),
        ("top_k", (1, 5, 40)),
        ("min_p", (0.02, 0.2)),
        ("repeat_penalty", (0.9, 1.1, 1.5)),
        ("frequency_penalty", (-0.5, 0.3, 2.0)),
        ("presence_penalty", (-0.5, 0.4, 1.5)),
        ("repeat_last_n", (0, 8, 64)),
    )
    chosen.update({name: rng.choice(values) for name, values in choices if rng.random() < 0.25})
    return chosen


def _sending(rng: random.Random) -> JsonObject:
    if rng.random() < 0.5:
        return {}
    return {"stream": True, "stream_options": {"include_usage": True}}
