"""The token stream against its plain twin: decode everything at once, find the earliest stop, cut."""

from __future__ import annotations

import codecs
import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.errors import BadInput
from edgespec.text.stream import Step, TextStream

from .test_stops import first_stop, safe_length
from .toy_vocab import ToyVocabulary

# Letters, both halves of é, parts of an emoji, bytes that are never valid, surrogates, overlong forms, silent tokens.
PIECES = (
    b"", b"a", b"b", b"ab", b"ba", b"\xc3", b"\xa9", b"a\xc3", b"\xa9b", b"\xe2\x82", b"\xac", b"\xf0\x9f", b"\x98\x80",
    b"\xff", b"\xed", b"\xa0\x80", b"\xf0\x80", b"\xc0\xaf", b"\xf4\x90", "€".encode(), "é".encode(), "\ufffd".encode(),
)  # fmt: skip
VOCAB = ToyVocabulary(pieces=PIECES)
STOP_ALPHABET = "abé€😀\ufffd"

streams = st.lists(st.integers(256, 255 + len(PIECES)), max_size=14)
stop_sets = st.lists(st.text(STOP_ALPHABET, min_size=1, max_size=4), max_size=4)


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    token_ids: tuple[int, ...]
    stopped: bool


def n_tokens_holding(pieces: list[bytes], n_characters: int) -> int:
    """The shortest prefix of tokens whose bytes hold the first characters of the whole text."""
    data = b"".join(pieces)
    n_bytes = max(n for n in range(len(data) + 1) if len(data[:n].decode("utf-8", "replace")) <= n_characters)
    sizes = list(itertools.accumulate(map(len, pieces), initial=0))
    return next(k for k, size in enumerate(sizes) if size >= n_bytes)


def plain(tokens: list[int], stops: list[str]) -> Answer:
    pieces = [VOCAB.piece(token) for token in tokens]
    text = b"".join(pieces).decode("utf-8", "replace")
    at = first_stop(text, stops)
    if at is None:
        return Answer(text, tuple(tokens), False)
    return Answer(text[:at], tuple(tokens[: n_tokens_holding(pieces, at)]), True)


def steps_of(tokens: list[int], stops: list[str]) -> list[Step]:
    stream = TextStream(VOCAB, stops)
    steps = []
    for token in tokens:
        steps.append(stream.push(token))
        if steps[-1].stopped:
            break
    steps.append(stream.finish())
    assert stream.n_kept == sum(len(step.token_ids) for step in steps)
    return steps


def streamed(tokens: list[int], stops: list[str]) -> Answer:
    steps = steps_of(tokens, stops)
    ids = tuple(token for step in steps for token in step.token_ids)
    return Answer("".join(step.text for step in steps), ids, steps[-1].stopped)


@settings(max_examples=2000, deadline=None)
@given(streams, stop_sets)
def test_streamed_equals_plain(tokens: list[int], stops: list[str]) -> None:
    assert streamed(tokens, stops) == plain(tokens, stops)


def test_streamed_equals_plain_for_every_short_stream() -> None:
    a, b, ab, half, rest, silent = (256 + PIECES.index(piece) for piece in (b"a", b"b", b"ab", b"\xc3", b"\xa9", b""))
    for n in range(1, 6):
        for tokens in itertools.product((a, b, ab, half, rest, silent), repeat=n):
            for stops in (["ab"], ["aba", "b"], ["é", "éa"], ["\ufffd", "bb"]):
                assert streamed(list(tokens), stops) == plain(list(tokens), stops)


@settings(max_examples=800, deadline=None)
@given(streams, stop_sets)
def test_text_and_ids_agree_at_every_moment(tokens: list[int], stops: list[str]) -> None:
    """After each push: nothing is held longer than needed, and the ids are the shortest that hold the text."""
    pieces = [VOCAB.piece(token) for token in tokens]
    given_text, given_ids = "", 0
    stream = TextStream(VOCAB, stops)
    for n, token in enumerate(tokens, start=1):
        step = stream.push(token)
        given_text += step.text
        given_ids += len(step.token_ids)
        assert given_ids == n_tokens_holding(pieces[:n], len(given_text))
        if step.stopped:
            return
        # Not final: an unfinished character at the end is left out.
        decoded = codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(pieces[:n]))
        assert given_text == decoded[: safe_length(decoded, stops)]


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=12), st.data())
def test_bytes_split_anywhere_decode_as_the_whole(data: bytes, draw: st.DataObject) -> None:
    cuts = draw.draw(st.sets(st.integers(0, len(data))))
    bounds = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(bounds)]
    vocab = ToyVocabulary(pieces=pieces)
    stream = TextStream(vocab)
    text = "".join(stream.push(256 + index).text for index in range(len(pieces))) + stream.finish().text
    assert text == data.decode("utf-8", "replace")


def test_a_character_split_over_tokens_appears_when_it_is_complete() -> None:
    stream = TextStream(ToyVocabulary())
    emoji = list("😀".encode())
    steps = [stream.push(token) for token in emoji]
    assert [step.text for step in steps] == ["", "", "", "😀"]
    assert steps[-1].token_ids == tuple(emoji)


def test_held_text_comes_out_as_soon_as_it_cannot_be_a_stop() -> None:
    stream = TextStream(ToyVocabulary(), ["\nUser:"])
    assert [stream.push(ord(letter)).text for letter in "hi\nUse"] == ["h", "i", "", "", "", ""]
    assert stream.push(ord("d")) == Step("\nUsed", tuple(b"\nUsed"), False)


def test_a_token_partly_before_the_stop_is_kept_and_one_inside_it_is_not() -> None:
    vocab = ToyVocabulary(pieces=[b"end<", b"stop>", b" more"])
    stream = TextStream(vocab, ["<stop>"])
    assert stream.push(256) == Step("end", (256,), False)
    assert stream.push(257) == Step("", (), True)
    assert stream.n_kept == 1
    with pytest.raises(ValueError, match="258"):
        stream.push(258)


def test_an_unfinished_stop_and_an_unfinished_character_come_out_at_the_end() -> None:
    stream = TextStream(ToyVocabulary(), ["abc"])
    assert [stream.push(token).text for token in b"ab\xe2\x82"] == ["", "", "", ""]
    assert stream.finish() == Step("ab\ufffd", tuple(b"ab\xe2\x82"), False)


def test_special_tokens_have_ids_and_no_text() -> None:
    vocab = ToyVocabulary()
    marker = vocab.special_tokens["<|im_start|>"]
    stream = TextStream(vocab, ["<|im_start|>"])
    steps = [stream.push(marker), stream.push(ord("x")), stream.push(marker), stream.finish()]
    assert [step.text for step in steps] == ["", "x", "", ""]
    assert [step.token_ids for step in steps] == [(), (marker, ord("x")), (), (marker,)]


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(BadInput):
        TextStream(VOCAB, [""])
