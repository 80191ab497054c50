from __future__ import annotations

from openai.types.chat.chat_completion import ChoiceLogprobs
from openai.types.completion_choice import Logprobs

from edgespec.server.scores import Scored, ScoredToken, chat_logprobs, text_logprobs

EURO = "€".encode()
TOKENS = (
    ScoredToken(Scored(b"a", -0.5), (Scored(b"a", -0.5), Scored(b"b", -1.0))),
    ScoredToken(Scored(EURO[:1], -0.1), (Scored(EURO[:1], -0.1), Scored(EURO[1:2], -3.0))),
    ScoredToken(Scored(EURO[1:], -0.2), ()),
    ScoredToken(Scored(b"c", 0.0), ()),
)


def test_the_shape_of_a_chat() -> None:
    got = ChoiceLogprobs.model_validate(chat_logprobs(TOKENS), strict=True)
    assert got.content is not None
    assert [token.logprob for token in got.content] == [-0.5, -0.1, -0.2, 0.0]
    assert [token.token for token in got.content][0::3] == ["a", "c"]
    assert b"".join(bytes(token.bytes or ()) for token in got.content) == b"a" + EURO + b"c"
    assert [(one.token, one.logprob) for one in got.content[0].top_logprobs] == [("a", -0.5), ("b", -1.0)]


def test_the_shape_of_a_completion() -> None:
    got = Logprobs.model_validate(text_logprobs(TOKENS, offset=10), strict=True)
    assert got.token_logprobs == [-0.5, -0.1, -0.2, 0.0]
    assert got.text_offset == [10, 11, 11, 12]
    assert got.top_logprobs is not None
    assert got.top_logprobs[0] == {"a": -0.5, "b": -1.0}
    assert got.top_logprobs[1] == {"\ufffd": -0.1}  # of those that read the same the likeliest
    assert text_logprobs(()) == {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
