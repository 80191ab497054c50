from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.toy import ToyModel
from edgespec.choice import DraftChoice
from edgespec.engine import GenerateOptions
from edgespec.errors import BadInput, ContextOverflow
from edgespec.server.reading import LEAST_PIECE, PromptReader
from edgespec.server.refusals import Refusal
from edgespec.server.tools import ToolChoice, ToolUse
from edgespec.server.wire import Chat, Wanted
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import Capabilities
from edgespec.text.grammar import Grammar
from edgespec.text.messages import Message, Tool
from edgespec.text.toolcalls import CallForm, call_grammar, free_grammar
from tests.engine.toy_engine import EngineTarget, engine_over
from tests.text.tool_templates import TAGGED
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
LIMITS = Capabilities(n_ctx=1000, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
OPTIONS = GenerateOptions(stop=("X",))
CHAT = Wanted(Chat((Message("user", "hi <|im_end|>"),)), OPTIONS)


def target() -> EngineTarget:
    return EngineTarget(ToyModel(n_vocab=VOCAB.n_vocab), LIMITS)


def test_a_chat_is_read_by_the_models_template() -> None:
    with engine_over(target()) as engine:
        read = PromptReader(engine).read(CHAT)
    assert VOCAB.bos is not None
    typed = VOCAB.tokenize("hi <|im_end|>")  # nobody can type a special token
    opening, closing = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
    assert read.tokens == [VOCAB.bos, *VOCAB.tokenize_special(opening), *typed, *VOCAB.tokenize_special(closing)]
    assert read.options == OPTIONS


def test_another_template_brings_its_stops() -> None:
    with engine_over(target()) as engine:
        reader = PromptReader(engine, "plain")
        assert reader.read(CHAT).options.stop == ("X", "\nUser:")
        assert reader.read(Wanted("a text", OPTIONS)).options.stop == ("X",)
        with pytest.raises(BadInput, match="template 'none-such'"):
            PromptReader(engine, "none-such")


def test_texts_and_tokens_are_read_as_they_stand() -> None:
    with engine_over(target()) as engine:
        reader = PromptReader(engine)
        assert reader.read(Wanted("ab", OPTIONS)).tokens == [VOCAB.bos, *VOCAB.tokenize("ab")]
        assert reader.read(Wanted((7, 8), OPTIONS)).tokens == [7, 8]


def test_tools_are_shown_and_a_grammar_makes_the_model_call_them() -> None:
    tools = (Tool("f", "says hello"),)
    free, required = ToolUse(tools), ToolUse(tools, ToolChoice.REQUIRED, several=False)
    with engine_over(target()) as engine:
        reader = PromptReader(engine)
        reads = [reader.read(replace(CHAT, tools=use)) for use in (free, required)]
        plain = reader.read(CHAT)
    for read in reads:
        assert b"says hello" in b"".join(VOCAB.piece(token) for token in read.tokens)
        assert read.functions == {"f"}
    assert reads[0].options.grammar == free_grammar(tools, CallForm.TOLD, several=True)
    assert reads[1].options.grammar == call_grammar(tools, CallForm.TOLD, several=False)
    assert (plain.options.grammar, plain.functions) == (None, frozenset())


def test_where_a_call_begins_with_a_special_token_it_is_left_free(tmp_path: Path) -> None:
    path = tmp_path / "tagged.jinja"
    path.write_text(TAGGED, encoding="utf-8")
    with engine_over(target()) as engine:
        engine.vocab = ToyVocabulary(specials=("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<tool_call>"))
        read = PromptReader(engine, str(path)).read(replace(CHAT, tools=ToolUse((Tool("f"),))))
    assert (read.options.grammar, read.functions) == (None, frozenset("f"))


def test_a_prediction_is_read_for_its_count() -> None:
    with engine_over(target()) as engine:
        read = PromptReader(engine).read(Wanted("ab", GenerateOptions(prediction="abc")))
    assert read.prediction == tuple(VOCAB.tokenize("abc"))


def test_only_what_an_answer_could_say_is_drafted_from() -> None:
    long = "ab" * LIMITS.n_ctx
    with engine_over(target()) as engine:
        read = PromptReader(engine).read(Wanted("ab", GenerateOptions(prediction=long)))
    assert len(read.prediction) == len(VOCAB.tokenize(long)) > LIMITS.n_ctx
    assert VOCAB.tokenize(read.options.prediction) == list(read.prediction[: LIMITS.n_ctx])


def test_a_prompt_that_cannot_fit_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(len(VOCAB.piece(token)) for token in range(VOCAB.n_vocab))
    fits = "a" * (LIMITS.n_ctx * max(longest, LEAST_PIECE, *map(len, VOCAB.special_tokens)))
    with engine_over(target()) as engine:
        reader = PromptReader(engine)
        monkeypatch.setattr(engine.encoder, "encode", lambda _segments: [5])
        assert reader.read(Wanted(fits, OPTIONS)).tokens == [5]
        with pytest.raises(ContextOverflow, match=f"a prompt of {len(fits) + 1} characters"):
            reader.read(Wanted(fits + "a", OPTIONS))


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        (Wanted((10**30,), OPTIONS), "prompt"),
        (Wanted("a", GenerateOptions(SamplingSettings(logit_bias=((10**6, 1.0),)))), "logit_bias"),
        (replace(CHAT, options=replace(OPTIONS, grammar=Grammar.json_schema('{"type": "x"}'))), "response_format"),
        (replace(CHAT, tools=ToolUse((Tool("f", "", '{"properties": 5}'),), ToolChoice.REQUIRED)), "tools"),
    ],
)
def test_what_the_engine_would_refuse_is_refused_by_name(wanted: Wanted, param: str) -> None:
    with engine_over(target()) as engine, pytest.raises(Refusal) as refused:
        PromptReader(engine).read(wanted)
    assert refused.value.param == param


def test_a_second_model_must_be_there() -> None:
    with engine_over(target()) as engine, pytest.raises(Refusal, match="no second model"):
        PromptReader(engine).read(Wanted("ab", GenerateOptions(draft=DraftChoice.MODEL)))
