from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.chat_completion import ChoiceLogprobs
from openai.types.completion_choice import Logprobs

from edgespec.events import TokenScore
from edgespec.server.scores import Places, Scored, ScoredToken, ScoreWriter, Spelling, chat_logprobs, text_logprobs
from edgespec.text.stream import TextStream
from tests.text.toy_vocab import ToyVocabulary

EURO = "€".encode()
TOKENS = (
    ScoredToken(Scored(b"a", -0.5), (Scored(b"a", -0.5), Scored(b"b", -1.0))),
    ScoredToken(Scored(EURO[:1], -0.1), (Scored(EURO[:1], -0.1), Scored(EURO[1:2], -3.0))),
    ScoredToken(Scored(EURO[1:], -0.2), ()),
    ScoredToken(Scored(b"c", 0.0), ()),
)
VOCAB = ToyVocabulary()
END = VOCAB.special_tokens["</s>"]


def test_the_shape_of_a_chat() -> None:
    got = ChoiceLogprobs.model_validate(chat_logprobs(TOKENS), strict=True)
    assert got.content is not None
    assert [token.logprob for token in got.content] == [-0.5, -0.1, -0.2, 0.0]
    assert [token.token for token in got.content][0::3] == ["a", "c"]
    assert b"".join(bytes(token.bytes or ()) for token in got.content) == b"a" + EURO + b"c"
    assert [(one.token, one.logprob) for one in got.content[0].top_logprobs] == [("a", -0.5), ("b", -1.0)]


def test_the_shape_of_a_completion() -> None:
    got = Logprobs.model_validate(text_logprobs(TOKENS, Places()), strict=True)
    assert got.token_logprobs == [-0.5, -0.1, -0.2, 0.0]
    assert got.text_offset == [0, 1, 1, 2]
    assert got.top_logprobs is not None
    assert list(got.top_logprobs[0].items()) == [("a", -0.5), ("b", -1.0)]
    assert got.top_logprobs[1] == {"\ufffd": -0.1}  # of those that read the same the likeliest
    nothing: dict[str, object] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    assert text_logprobs((), Places()) == nothing


def test_a_completion_has_the_token_itself_among_its_alternatives() -> None:
    unlikely = ScoredToken(Scored(b"z", -9.0), (Scored(b"a", -0.5),))
    assert text_logprobs([unlikely], Places())["top_logprobs"] == [{"a": -0.5, "z": -9.0}]


def test_special_tokens_have_a_name_and_no_bytes() -> None:
    score = TokenScore(ord("a"), -1.0, (END, ord("a")), (-0.5, -1.0))
    (entry,) = ChoiceLogprobs.model_validate(ScoreWriter(Spelling(VOCAB), True).write([score])).content or []
    assert (entry.token, entry.bytes) == ("a", [97])
    assert [(one.token, one.bytes, one.logprob) for one in entry.top_logprobs] == [
        ("</s>", None, -0.5),
        ("a", [97], -1),
    ]
    assert ScoreWriter(Spelling(VOCAB), False).write([score])["top_logprobs"] == [{"</s>": -0.5, "a": -1.0}]


@given(
    st.lists(st.sampled_from([b"a", b"bc", b"", EURO, EURO[:1], EURO[1:], EURO[:2], b"\xff", b"\xf0\x9f", b"x\xe2"]))
)
def test_a_place_is_that_of_the_character_with_the_first_byte(pieces: list[bytes]) -> None:
    places, whole = Places(), b""
    for piece in pieces:
        got = places.next(piece)
        if piece:
            # The characters before it, and of those that its first byte ends up in none.
            assert got == len((whole + piece[:1]).decode("utf-8", "replace")) - 1
        whole += piece


@given(st.lists(st.integers(0, VOCAB.n_vocab - 1), max_size=12), st.integers(1, 4))
def test_bit_by_bit_it_is_what_it_is_at_once(tokens: list[int], size: int) -> None:
    scores = [TokenScore(token, -float(i), (1,), (-0.5,)) for i, token in enumerate(tokens)]
    for is_chat, names in ((True, ("content",)), (False, ("tokens", "token_logprobs", "top_logprobs", "text_offset"))):
        whole = ScoreWriter(Spelling(VOCAB), is_chat).write(scores)
        writer = ScoreWriter(Spelling(VOCAB), is_chat)
        parts = [writer.write(scores[start : start + size]) for start in range(0, len(scores), size)]
        for name in names:
            assert [one for part in parts for one in _list(part[name])] == whole[name]


@given(st.lists(st.integers(0, 259), max_size=12))
def test_places_are_those_of_the_text(tokens: list[int]) -> None:
    stream = TextStream(VOCAB)
    text = "".join([*(stream.push(token).text for token in tokens), stream.finish().text])
    found = ScoreWriter(Spelling(VOCAB), False).write([TokenScore(token, -math.pi) for token in tokens])
    for token, place in zip(tokens, _list(found["text_offset"]), strict=True):
        if VOCAB.piece(token).isascii():
            assert isinstance(place, int)
            assert text[place:].startswith(VOCAB.piece(token).decode())


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
