"""Prompts to tokens: special tokens come out of trusted text only."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.text.vocab import PromptEncoder, Segment, SpecialTexts, continuation

from .toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
BOS, END = (VOCAB.special_tokens[text] for text in ("<s>", "<|im_end|>"))
FRAGMENTS = ("<|im_end|>", "<|im_", "end|>", "<", ">", "<s>", "</s>", "|>", " ", "\n", "the", "é", "x")
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join)
segment_lists = st.lists(st.builds(Segment, texts, st.booleans()), max_size=5)


def spelled(tokens: list[int]) -> bytes:
    """Tokens back to text, special tokens by their spelling."""
    spellings = {token: text.encode() for text, token in VOCAB.special_tokens.items()}
    return b"".join(spellings.get(token) or VOCAB.piece(token) for token in tokens)


def n_special(tokens: list[int]) -> int:
    return sum(token in VOCAB.special_tokens.values() for token in tokens)


@settings(max_examples=600, deadline=None)
@given(segment_lists)
def test_tokens_spell_the_text_and_only_trusted_segments_give_special_ones(segments: list[Segment]) -> None:
    tokens = PromptEncoder(VOCAB).encode_more(segments)
    assert spelled(tokens) == "".join(segment.text for segment in segments).encode()
    if not all(segment.trusted for segment in segments):
        alone = [VOCAB.tokenize_special(segment.text) for segment in segments if segment.trusted]
        assert n_special(tokens) == sum(map(n_special, alone))


@settings(max_examples=300, deadline=None)
@given(texts)
def test_untrusted_text_without_risk_is_read_as_if_it_were_trusted(text: str) -> None:
    """The careful way and the library's own way agree where both apply."""
    specials = SpecialTexts(VOCAB.special_tokens)
    plain = "".join(stretch for stretch, special in specials.cut(text) if not special)
    if not specials.risky_spans(plain):
        segments = [Segment("<|im_end|>", True), Segment(plain, False), Segment("<s>x", True)]
        assert PromptEncoder(VOCAB).encode_more(segments) == VOCAB.tokenize_special(f"<|im_end|>{plain}<s>x")


def test_a_prompt_begins_with_the_begin_token_exactly_once() -> None:
    encoder = PromptEncoder(VOCAB)
    assert encoder.encode([Segment("hi", True)]) == [BOS, *b"hi"]
    assert encoder.encode([Segment("<s>hi", True)]) == [BOS, *b"hi"]
    assert encoder.encode([Segment("<s>", False)]) == [BOS, *b"<s>"]
    assert encoder.encode([]) == [BOS]
    assert encoder.encode_more([Segment("hi", True)]) == [*b"hi"]
    assert PromptEncoder(ToyVocabulary(wants_bos=False)).encode([Segment("hi", True)]) == [*b"hi"]


def test_a_word_that_crosses_segments_stays_one_token() -> None:
    the = VOCAB.tokenize("the")
    assert len(the) == 1
    assert PromptEncoder(VOCAB).encode_more([Segment("t", True), Segment("he", False)]) == the


def test_risky_spans_are_whole_spellings_and_edges_that_could_become_one() -> None:
    specials = SpecialTexts(["<|end|>", "<s>"])
    assert specials.risky_spans("a <|end|> b <s>") == [(2, 9), (12, 15)]
    assert specials.risky_spans(" end|> and <|en \n") == [(1, 6), (11, 15)]
    assert specials.risky_spans("1 < 2") == []
    assert specials.risky_spans("<s") == [(0, 2)]
    assert SpecialTexts(["<<a>>", "<b>"]).risky_spans(">> or <<") == [(0, 2), (6, 8)]
    assert specials.risky_spans("") == specials.risky_spans(" \n") == []
    assert SpecialTexts([]).risky_spans("<|end|>") == []


@settings(max_examples=300, deadline=None)
@given(texts, texts, texts)
def test_no_special_token_touches_what_is_left_of_a_content(before: str, content: str, after: str) -> None:
    """Cut the risky spans out: no spelling in [before + rest + after] holds a character of the rest."""
    specials = SpecialTexts(VOCAB.special_tokens)
    spans = specials.risky_spans(content)
    kept = "".join(
        "\x00" if any(start <= at < end for start, end in spans) else letter for at, letter in enumerate(content)
    )
    whole = before + kept + after
    place = 0
    for stretch, special in specials.cut(whole):
        inside = max(place, len(before)) < min(place + len(stretch), len(before) + len(kept))
        assert not (special and inside and "\x00" not in stretch)
        place += len(stretch)


def test_longest_spelling_is_found_first() -> None:
    assert list(SpecialTexts(["<a", "<a>"]).cut("x<a><a")) == [("x", False), ("<a>", True), ("<a", True)]


def test_continuation_is_what_the_segments_add() -> None:
    segments = [Segment("abc", True), Segment("de", False), Segment("f", True)]
    assert continuation("", segments) == segments
    assert continuation("abc", segments) == segments[1:]
    assert continuation("abcd", segments) == [Segment("e", False), Segment("f", True)]
    assert continuation("abcdef", segments) == []
    assert continuation("abx", segments) is None
    assert continuation("abcdefg", segments) is None
