from __future__ import annotations

from edgespec.engine.reading import Reading
from edgespec.text.vocab import PromptEncoder, Segment
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
THE = VOCAB.tokenize("the")  # one token; the model may say it in three
LETTERS = [*b"the"]


def trusted(text: str) -> list[Segment]:
    return [Segment(text, trusted=True)]


def encoded(text: str) -> list[int]:
    return PromptEncoder(VOCAB).encode(trusted(text))


def test_a_first_prompt_is_encoded_whole() -> None:
    assert Reading(PromptEncoder(VOCAB)).tokens_of(trusted("ask the")) == encoded("ask the")


def test_an_answer_keeps_the_tokens_it_was_said_in() -> None:
    reading = Reading(PromptEncoder(VOCAB))
    reading.add("ask ", encoded("ask "), "the", LETTERS)
    assert reading.tokens_of(trusted("ask the<|im_end|>the")) == [
        *encoded("ask "), *LETTERS, *VOCAB.tokenize_special("<|im_end|>"), *THE,
    ]  # fmt: skip


def test_another_text_is_encoded_anew() -> None:
    reading = Reading(PromptEncoder(VOCAB))
    reading.add("ask ", encoded("ask "), "the", LETTERS)
    for text in ("ask that", "ask", "other the"):
        assert reading.tokens_of(trusted(text)) == encoded(text)


def test_going_back_goes_back_to_the_earlier_answer() -> None:
    reading = Reading(PromptEncoder(VOCAB))
    first = [*encoded("a "), *LETTERS]
    reading.add("a ", encoded("a "), "the", LETTERS)
    second = reading.tokens_of(trusted("a the b "))
    reading.add("a the b ", second, "the", LETTERS)
    assert reading.tokens_of(trusted("a the b thec")) == [*second, *LETTERS, *b"c"]
    assert reading.tokens_of(trusted("a the c ")) == [*first, *b" c "]  # the second exchange was taken back


def test_what_was_taken_back_is_forgotten_once_the_text_goes_on() -> None:
    reading = Reading(PromptEncoder(VOCAB))
    reading.add("a ", encoded("a "), "the", LETTERS)
    reading.add("a the b ", reading.tokens_of(trusted("a the b ")), "the", LETTERS)
    other = reading.tokens_of(trusted("a the c "))
    reading.add("a the c ", other, "x", [*b"x"])
    assert reading.tokens_of(trusted("a the c xy")) == [*other, *b"xy"]
    # The answer to "b" is encoded anew now, not in the letters it was said in.
    assert reading.tokens_of(trusted("a the b the")) == [*encoded("a "), *LETTERS, *VOCAB.tokenize(" b the")]


def test_the_same_text_from_other_tokens_counts_as_taken_back() -> None:
    reading = Reading(PromptEncoder(VOCAB))
    reading.add("a ", encoded("a "), "the", LETTERS)
    reading.add("a the b ", encoded("a the b "), "x", [*b"x"])  # "the" was read as one token
    assert reading.tokens_of(trusted("a the c")) == encoded("a the c")


def test_the_same_tokens_from_another_text_count_as_taken_back() -> None:
    reading = Reading(PromptEncoder(VOCAB))
    reading.add("a ", [1, 2], "b", [3])
    reading.add("xyz ", [1, 2, 3, 4], "c", [5])
    assert reading.tokens_of(trusted("xyzq")) == encoded("xyzq")
