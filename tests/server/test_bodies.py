from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from openai.types import Completion as TextCompletion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from edgespec.events import Piece
from edgespec.server.bodies import DONE, Predicted, Reply
from tests.server.toy_completion import TIMINGS, completion_of

CHAT = Reply("chatcmpl-1", 1700000000, "toy", is_chat=True)
TEXT = Reply("cmpl-1", 1700000000, "toy", is_chat=False)
PIECES = [Piece("a", (1,), ""), Piece("b", (2,), "lookup"), Piece("", (3,), "lookup"), Piece("é", (4, 5), "lookup")]


def events_in(stream: bytes) -> list[dict[str, Any]]:
    blocks = stream.removesuffix(DONE).decode().split("\n\n")
    return [json.loads(block.removeprefix("data: ")) for block in blocks if block]


def test_whole_bodies_are_what_the_official_types_say() -> None:
    chat = ChatCompletion.model_validate(json.loads(CHAT.whole(completion_of("aé"), Predicted(2, 1))), strict=True)
    assert chat.choices[0].message.content == "aé"
    assert chat.usage is not None
    assert (chat.usage.prompt_tokens, chat.usage.completion_tokens, chat.usage.total_tokens) == (30, 2, 32)
    assert chat.usage.prompt_tokens_details is not None
    assert chat.usage.prompt_tokens_details.cached_tokens == 10
    assert chat.usage.completion_tokens_details is not None
    assert chat.usage.completion_tokens_details.accepted_prediction_tokens == 2
    assert chat.usage.completion_tokens_details.rejected_prediction_tokens == 1
    text = TextCompletion.model_validate(json.loads(TEXT.whole(completion_of("ab"), None)), strict=True)
    assert (text.object, text.choices[0].text, text.choices[0].finish_reason) == ("text_completion", "ab", "stop")


def test_without_a_prediction_none_is_counted() -> None:
    usage = json.loads(CHAT.whole(completion_of("a"), None))["usage"]
    assert "accepted_prediction_tokens" not in usage["completion_tokens_details"]


def test_timings_have_the_names_of_llama_cpp() -> None:
    body = json.loads(TEXT.whole(completion_of("abcdefgh"), None))
    assert body["timings"] == {
        "cache_n": 10, "prompt_n": 20, "prompt_ms": 500.0, "prompt_per_second": 40.0, "predicted_n": 8,
        "predicted_ms": 2000.0, "predicted_per_second": 4.0, "draft_n": 6, "draft_n_accepted": 5,
    }  # fmt: skip
    assert body["edgespec"] == {
        "seed": 9, "exact": True, "passes": 3, "drafter": "lookup", "speedup": 2.5, "first_token_ms": 50.0,
        "notices": [{"code": "code", "message": "a line"}],
    }  # fmt: skip


def test_what_was_not_measured_is_null() -> None:
    unmeasured = completion_of("a", replace(TIMINGS, plain_seconds=0.0, prompt_seconds=0.0))
    body = json.loads(TEXT.whole(unmeasured, None))
    assert body["edgespec"]["speedup"] is None
    assert body["timings"]["prompt_per_second"] == 0.0


@pytest.mark.parametrize("include_usage", [False, True])
def test_a_stream_is_chunks_of_the_official_type(include_usage: bool) -> None:
    stream = CHAT.opening(include_usage) + CHAT.events(PIECES, include_usage)
    stream += CHAT.closing(completion_of("abé"), None, include_usage)
    assert stream.endswith(DONE)
    chunks = [ChatCompletionChunk.model_validate(one, strict=True) for one in events_in(stream)]
    deltas = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert deltas == ["", "a", "bé", None]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices] == [None, None, None, "stop"]
    assert [chunk.usage is not None for chunk in chunks] == [False] * 4 + [True] * include_usage


def test_runs_of_pieces_keep_their_source() -> None:
    first, second = events_in(TEXT.events(PIECES, include_usage=False))
    assert (first["choices"][0]["text"], first["edgespec"]) == ("a", {"source": "", "n_tokens": 1})
    assert (second["choices"][0]["text"], second["edgespec"]) == ("bé", {"source": "lookup", "n_tokens": 4})
    assert "usage" not in first


def test_pieces_without_text_are_no_event() -> None:
    assert TEXT.events([Piece("", (1,), "")], include_usage=False) == b""
    assert TEXT.opening(include_usage=True) == b""
