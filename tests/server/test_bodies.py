from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from openai.types import Completion as TextCompletion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from edgespec.events import Finish, Piece, TokenScore
from edgespec.server.bodies import DONE, Predicted, Reply
from edgespec.server.scores import ScoreWriter, Spelling
from edgespec.text.messages import ToolCall
from edgespec.text.toolcalls import Spoken
from tests.server.toy_completion import TIMINGS, completion_of
from tests.text.toy_vocab import ToyVocabulary

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


SCORES = (TokenScore(97, -0.5, (98,), (-0.25,)), TokenScore(98, -1.0), TokenScore(300, -2.0))


def writer(is_chat: bool) -> ScoreWriter:
    return ScoreWriter(Spelling(ToyVocabulary(specials=("<s>", "</s>", *"x" * 40))), is_chat)


def test_log_probabilities_are_where_the_official_types_have_them() -> None:
    scored = replace(completion_of("ab"), scores=SCORES)
    chat = ChatCompletion.model_validate(json.loads(CHAT.whole(scored, None, writer(True))), strict=True)
    assert chat.choices[0].logprobs is not None
    assert [one.logprob for one in chat.choices[0].logprobs.content or ()] == [-0.5, -1.0, -2.0]
    text = TextCompletion.model_validate(json.loads(TEXT.whole(scored, None, writer(False))), strict=True)
    assert text.choices[0].logprobs is not None
    assert text.choices[0].logprobs.token_logprobs == [-0.5, -1.0, -2.0]
    for reply in (CHAT, TEXT):
        assert json.loads(reply.whole(scored, None))["choices"][0]["logprobs"] is None


def test_a_stream_tells_the_scores_of_every_token_in_order() -> None:
    pieces = [Piece("a", (97,), "", SCORES[:1]), Piece("b", (98,), "x", SCORES[1:2]), Piece("", (300,), "", SCORES[2:])]
    chat, text = writer(True), writer(False)
    chunks = [
        ChatCompletionChunk.model_validate(one, strict=True)
        for part in (pieces[:1], pieces[1:])
        for one in events_in(CHAT.events(part, False, chat))
    ]
    told = [chunk.choices[0].logprobs for chunk in chunks]
    assert [[one.logprob for one in (part and part.content) or ()] for part in told] == [[-0.5], [-1.0], [-2.0]]
    streamed = [one for part in (pieces[:1], pieces[1:]) for one in events_in(TEXT.events(part, False, text))]
    assert [one["choices"][0]["logprobs"]["text_offset"] for one in streamed] == [[0], [1], [2]]


@pytest.mark.parametrize("reply", [CHAT, TEXT])
def test_ids_are_told_whole_and_in_a_stream(reply: Reply) -> None:
    telling = replace(reply, token_ids=True)
    assert json.loads(telling.whole(completion_of("ab"), None))["edgespec"]["token_ids"] == [0, 1]
    pieces = [*PIECES, Piece("", (6,), "")]  # whose text is not shown, as that of a call
    told = [one["edgespec"]["token_ids"] for one in events_in(telling.events(pieces, include_usage=False))]
    assert told == [[1], [2, 3, 4, 5], [6]]
    assert "token_ids" not in json.loads(reply.whole(completion_of("ab"), None))["edgespec"]


def test_pieces_without_text_are_no_event() -> None:
    assert TEXT.events([Piece("", (1,), "")], include_usage=False) == b""
    assert TEXT.opening(include_usage=True) == b""


# -- calls --------------------------------------------------------------------------------------------------------

CALLS = (ToolCall("call_1", "f", '{"a": "é"}'), ToolCall("call_2", "g", "{}"))


def test_calls_are_what_the_official_types_say() -> None:
    body = json.loads(CHAT.whole(completion_of("x"), None, None, Spoken("Well.", CALLS)))
    (choice,) = ChatCompletion.model_validate(body, strict=True).choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Well.")
    told = choice.message.tool_calls or []
    assert [(call.id, call.type) for call in told] == [("call_1", "function"), ("call_2", "function")]
    assert [(call.function.name, call.function.arguments) for call in told if call.type == "function"] == [
        ("f", '{"a": "é"}'), ("g", "{}"),
    ]  # fmt: skip


def test_calls_alone_have_no_content_and_words_alone_no_calls() -> None:
    alone = json.loads(CHAT.whole(completion_of("x"), None, None, Spoken("", CALLS)))["choices"][0]["message"]
    words = json.loads(CHAT.whole(completion_of(""), None, None, Spoken("")))["choices"][0]["message"]
    assert alone["content"] is None
    assert (words["content"], "tool_calls" in words) == ("", False)


def test_an_answer_that_was_too_long_says_so_whatever_it_called() -> None:
    cut = replace(completion_of("x"), finish=Finish.LENGTH)
    assert json.loads(CHAT.whole(cut, None, None, Spoken("", CALLS)))["choices"][0]["finish_reason"] == "length"


def test_a_stream_ends_with_its_calls() -> None:
    stream = CHAT.closing(completion_of("x"), None, include_usage=True, calls=CALLS)
    *called, end, usage = [ChatCompletionChunk.model_validate(one, strict=True) for one in events_in(stream)]
    deltas = [call for chunk in called for call in chunk.choices[0].delta.tool_calls or ()]
    assert [(call.index, call.id) for call in deltas] == [(0, "call_1"), (1, "call_2")]
    assert [call.function and call.function.arguments for call in deltas] == ['{"a": "é"}', "{}"]
    assert (end.choices[0].finish_reason, usage.choices) == ("tool_calls", [])
