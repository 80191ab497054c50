"""That the tool sees what is wrong with answers, each fault planted by itself, and nothing where all is well."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tools.fuzz_answers import Answered, Scored, contradictions, differences, streamed, whole

PIECES = (b"a", b"b", b"ab", b"\xc3", b"\xa9", b"")
USAGE = (("completion_tokens", 2), ("prompt_tokens", 5))
A, B = Scored("a", b"a", -0.5, (Scored("a", b"a", -0.5), Scored("b", b"b", -1.0))), Scored("b", b"b", -1.5)
AB = Answered("ab", (0, 1), "stop", USAGE, (A, B), scored=True)
IDS = {"edgespec": {"token_ids": [0, 1]}}
CHAT_SCORES = {
    "content": [
        {
            "token": "a",
            "logprob": -0.5,
            "bytes": [97],
            "top_logprobs": [
                {"token": "a", "logprob": -0.5, "bytes": [97]},
                {"token": "b", "logprob": -1.0, "bytes": [98]},
            ],
        },
        {"token": "b", "logprob": -1.5, "bytes": [98], "top_logprobs": []},
    ]
}
TEXT_SCORES = {
    "tokens": ["a", "b"],
    "token_logprobs": [-0.5, -1.5],
    "top_logprobs": [{"a": -0.5, "b": -1.0}, {}],
    "text_offset": [0, 1],
}


def piece(token: int) -> bytes:
    return PIECES[token]


def body(choice: dict[str, object]) -> bytes:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    return json.dumps({"choices": [{"index": 0, "finish_reason": "stop", **choice}], "usage": usage, **IDS}).encode()


def events(*values: dict[str, object]) -> list[str]:
    lines = [f"data: {json.dumps(value)}" for value in values]
    return [part for line in [*lines, "data: [DONE]"] for part in (line, "", ": still working")]


def test_a_whole_chat_and_a_whole_text_read_alike() -> None:
    chat = whole(body({"message": {"role": "assistant", "content": "ab"}, "logprobs": CHAT_SCORES}))
    assert chat == AB
    text = whole(body({"text": "ab", "logprobs": TEXT_SCORES}))
    assert replace(text, scores=()) == replace(AB, scores=())
    assert [(one.name, one.logprob) for one in text.scores] == [("a", -0.5), ("b", -1.5)]
    assert [[(top.name, top.logprob) for top in one.top] for one in text.scores] == [[("a", -0.5), ("b", -1.0)], []]


def told_by_one(token: int) -> dict[str, object]:
    return {"edgespec": {"source": "", "n_tokens": 1, "token_ids": [token]}}


def test_a_stream_reads_like_the_whole() -> None:
    first, second = ({"content": [one]} for one in CHAT_SCORES["content"])
    found = streamed(
        events(
            {"choices": [{"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}]},
            {"choices": [{"delta": {"content": "a"}, "logprobs": first}], **told_by_one(0)},
            {"choices": [{"delta": {"content": "b"}, "logprobs": second}], **told_by_one(1)},
            {"choices": [{"delta": {}, "logprobs": None, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        )
    )
    assert found == replace(AB, n_streamed=2)


def test_refusals_and_streams_that_break_off() -> None:
    assert whole(b'{"error": {"message": "no"}}').refused == "no"
    assert streamed(['data: {"error": {"message": "no"}}', "data: [DONE]"]).refused == "no"
    assert streamed(['data: {"choices": []}']).refused == "the stream broke off"


def test_an_answer_is_equal_to_itself_and_agrees_with_itself() -> None:
    assert differences(AB, AB) == []
    assert contradictions(AB, (0, 1), piece, cut_by_stop=False) == []


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (replace(AB, text="aa"), "text"),
        (replace(AB, finish="length"), "finish reason"),
        (replace(AB, usage=(("completion_tokens", 3), ("prompt_tokens", 5))), "usage"),
        (replace(AB, scores=(A, replace(B, logprob=-1.5000001))), "log probabilities"),
        (replace(AB, scores=(), scored=False), "log probabilities"),
        (replace(AB, n_streamed=1), "streamed tokens"),
        (replace(AB, refused="no"), "refused"),
    ],
)
def test_a_difference_is_named(other: Answered, what: str) -> None:
    assert differences(AB, other)[0].startswith(f"{what}: ")
    assert differences(other, AB)


def test_other_ids_of_the_same_text_are_a_difference() -> None:
    assert differences(AB, replace(AB, ids=(2,))) == ["ids: (0, 1) / (2,)"]


@pytest.mark.parametrize(
    ("answer", "ids", "what"),
    [
        (replace(AB, text="a"), (0, 1), "the ids spell 'ab' and the text is 'a'"),
        (AB, (2,), "the client was told the ids (0, 1), the engine made (2,)"),
        (AB, (0, 1, 5), "usage says 2 tokens and there are 3"),
        (replace(AB, scores=(A,)), (0, 1), "1 log probabilities for 2 tokens"),
        (replace(AB, scores=(B, A)), (0, 1), "token 0 is b'a' and its log probability that of 'b'"),
        (replace(AB, scores=(A, replace(B, logprob=0.1))), (0, 1), "token 1 has the log probability 0.1"),
        (replace(AB, scores=(A, replace(B, top=(replace(A, top=(), logprob=-2.0),)))), (0, 1), "token 1: -1.5 stands"),
        (replace(AB, scores=(replace(A, logprob=-0.4), B)), (0, 1), "token 0: -0.4 stands"),
    ],
)
def test_a_contradiction_is_named(answer: Answered, ids: tuple[int, ...], what: str) -> None:
    assert any(line.startswith(what) for line in contradictions(answer, ids, piece, cut_by_stop=False))


def test_a_stop_string_may_cut_the_last_token_and_no_other() -> None:
    cut = Answered("a", (2,), "stop", (("completion_tokens", 1),))
    assert contradictions(cut, (2,), piece, cut_by_stop=True) == []
    assert contradictions(cut, (2,), piece, cut_by_stop=False) == ["the ids spell 'ab' and the text is 'a'"]
    longer = replace(cut, usage=(("completion_tokens", 2),), ids=(0, 1))
    assert contradictions(longer, (0, 1), piece, cut_by_stop=True) == ["a token more than the text 'a' needs: 'ab'"]
    longer = replace(longer, ids=(0, 0))
    assert contradictions(longer, (0, 0), piece, cut_by_stop=True) == ["a token more than the text 'a' needs: 'aa'"]
    assert contradictions(replace(longer, text="b"), (0, 0), piece, cut_by_stop=True)


def test_letters_of_several_tokens_are_one_text() -> None:
    assert contradictions(Answered("é", (3, 4), "length", USAGE), (3, 4), piece, cut_by_stop=False) == []
