"""Chat templates: rendering, folding, faults, and that nobody can type a special token."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.errors import BadInput
from edgespec.text.messages import Tool, ToolCall
from edgespec.text.template import BUILTIN, MAX_CHARACTERS, ChatTemplate, Message, load_template
from edgespec.text.toolcalls import CallForm, read_calls
from edgespec.text.vocab import PromptEncoder, SpecialTexts, continuation

from .tool_templates import BARE, BLIND, DEAF, LISTED, PARAMETERS, STRANGE, TAGGED
from .toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
SPECIALS = SpecialTexts(VOCAB.special_tokens)

# The chat template in the metadata of SmolLM2-135M-Instruct (Apache-2.0).
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMING = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "<s>{{ m.role }}: {{ m['content'].strip() }}</s>{% endfor %}"
)
SILENT_ABOUT_SYSTEM = (
    "{% for m in messages %}{% if m.role != 'system' %}<|im_start|>{{ m.content + eos_token }}{% endif %}{% endfor %}"
)
# Drops the reasoning of earlier answers, as reasoning models' templates do.
THINKING = (
    "{%- for m in messages %}{% set text = m.content %}"
    "{%- if m.role == 'assistant' and '</think>' in text %}{% set text = text.split('</think>')[-1].lstrip('\n') %}"
    "{%- endif %}{{- '<|im_start|>' + m.role + '\n' + text + '<|im_end|>\n' }}{%- endfor %}"
)
SOURCES = (SMOLLM2, TRIMMING, NO_SYSTEM, SILENT_ABOUT_SYSTEM, THINKING, *(each.source for each in BUILTIN.values()))

FRAGMENTS = (
    "<|im_end|>", "<|im_start|>", "<|im_", "end|>", "<", ">", "</s>", "</think>", "\U000f0000", "\U000f0001", " ", "\n",
    "the", "é", "{{ 1 }}",
)  # fmt: skip
contents = st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join)
turns = st.lists(st.tuples(contents, contents), min_size=1, max_size=3)


def template_of(source: str) -> ChatTemplate:
    return ChatTemplate(source, VOCAB.bos_text, VOCAB.eos_text, now=lambda: datetime(2024, 7, 26))


TEMPLATES = [template_of(source) for source in SOURCES]


def conversation(system: str | None, pairs: list[tuple[str, str]]) -> list[Message]:
    messages = [Message("system", system)] if system is not None else []
    for asked, said in pairs:
        messages += [Message("user", asked), Message("assistant", said)]
    return messages


def special_ids(template: ChatTemplate, messages: list[Message]) -> list[int]:
    tokens = PromptEncoder(VOCAB).encode(template.render_segments(messages, True, SPECIALS))
    return [token for token in tokens if token in VOCAB.special_tokens.values()]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TEMPLATES), st.none() | contents, turns)
def test_segments_spell_the_rendered_text(
    template: ChatTemplate, system: str | None, pairs: list[tuple[str, str]]
) -> None:
    messages = conversation(system, pairs)
    segments = template.render_segments(messages, True, SPECIALS)
    assert "".join(segment.text for segment in segments) == template.render(messages, True)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TEMPLATES), st.none() | contents, turns)
def test_nobody_can_type_a_special_token(
    template: ChatTemplate, system: str | None, pairs: list[tuple[str, str]]
) -> None:
    """The special tokens of a prompt are those of the same conversation with harmless words."""
    harmless = conversation(None if system is None else "x", [("x", "x") for _ in pairs])
    assert special_ids(template, conversation(system, pairs)) == special_ids(template, harmless)


def test_a_harmless_conversation_is_one_trusted_segment() -> None:
    messages = conversation("Be brief.", [("Is 1 < 2?", "Yes, 2 > 1.")])
    (segment,) = template_of(SMOLLM2).render_segments(messages, True, SPECIALS)
    assert segment.trusted


def test_the_starter_model_s_template() -> None:
    assert template_of(SMOLLM2).render([Message("user", "Hi")], True) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert template_of(SMOLLM2).render([Message("system", "S"), Message("user", "Hi")], False) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    )


MESSAGES = [Message("system", "S"), Message("user", "U"), Message("assistant", "A"), Message("user", "V")]
EXPECTED = {
    "chatml": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
    "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n",
    "gemma": "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"
    "<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n",
    "llama3": "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "plain": "S\n\nUser: U\nAssistant: A\nUser: V\nAssistant:",
}


@pytest.mark.parametrize("name", BUILTIN)
def test_built_in_templates(name: str) -> None:
    template = load_template(name, SMOLLM2, "<s>", "</s>")
    assert template.render(MESSAGES, True) == EXPECTED[name]
    assert template.stops == BUILTIN[name].stops


@pytest.mark.parametrize("name", [*BUILTIN, "smollm2"])
@pytest.mark.parametrize("answer", ["A", " A", "A\n", "\nA", "", "<|im_end|>"])
def test_a_new_turn_continues_the_prompt_and_the_answer(name: str, answer: str) -> None:
    template = load_template(name if name in BUILTIN else None, SMOLLM2, "<s>", "</s>")
    messages = [Message("system", "S"), Message("user", "U")]
    before = template.render(messages, True) + answer
    longer = [*messages, Message("assistant", answer), Message("user", "V")]
    rest = continuation(before, template.render_segments(longer, True, SPECIALS))
    # `plain` writes the space that an answer lacks.
    assert (rest is None) == (name == "plain" and answer[:1] not in ("", " ", "\n"))
    if rest is not None:
        assert before + "".join(segment.text for segment in rest) == template.render(longer, True)


def test_a_template_that_trims_may_break_the_continuation_and_says_so() -> None:
    template = template_of(TRIMMING)
    before = template.render([Message("user", "U")], True) + " A"
    longer = [Message("user", "U"), Message("assistant", " A")]
    assert continuation(before, template.render_segments(longer, False, SPECIALS)) is None


@pytest.mark.parametrize("source", [NO_SYSTEM, SILENT_ABOUT_SYSTEM])
def test_a_system_text_without_a_place_goes_into_the_next_user_message(source: str) -> None:
    template = template_of(source)
    assert not template.takes_system
    assert template.render(MESSAGES, False) == template.render([Message("user", "S\n\nU"), *MESSAGES[2:]], False)
    assert template.render(MESSAGES[:1], False) == template.render([Message("user", "S")], False)


def test_a_template_with_a_system_role_keeps_it() -> None:
    assert template_of(SMOLLM2).takes_system


# -- tools --------------------------------------------------------------------------------------------------------

FORMS = {
    TAGGED: CallForm.TAGGED, PARAMETERS: CallForm.PARAMETERS, BARE: CallForm.BARE, LISTED: CallForm.LISTED,
    STRANGE: CallForm.TOLD, DEAF: CallForm.TOLD, BLIND: CallForm.TOLD, SMOLLM2: CallForm.TOLD,
    **{each.source: CallForm.TOLD for each in BUILTIN.values()},
}  # fmt: skip
WEATHER = Tool("weather", "Says <|im_end|> {{ 1 }}", '{"properties": {"town": {"enum": ["Ulm", "</s>"]}}}')
CALL = ToolCall("any id of any length", "weather", '{"town": "<|im_end|> Ulm"}')
CALLED = [
    Message("user", "How is it in Ulm?"),
    Message("assistant", "", (CALL,)),
    Message("tool", "rain <|im_end|>", call_id=CALL.id),
]


@pytest.mark.parametrize("source", FORMS)
def test_how_a_template_writes_calls_is_found_out(source: str) -> None:
    assert template_of(source).call_form is FORMS[source]


@pytest.mark.parametrize("source", FORMS)
def test_tools_calls_and_results_reach_every_prompt(source: str) -> None:
    template = template_of(source)
    text = template.render(CALLED, True, [WEATHER])
    assert "Says <|im_end|> {{ 1 }}" in text
    assert '"enum": ["Ulm", "</s>"]' in text
    assert text.index("How is it in Ulm?") < text.index('"<|im_end|> Ulm"') < text.index("rain <|im_end|>")
    assert '{"town": "<|im_end|> Ulm"}' in text
    segments = template.render_segments(CALLED, True, SPECIALS, [WEATHER])
    assert "".join(segment.text for segment in segments) == text


@pytest.mark.parametrize("source", FORMS)
def test_tools_calls_and_results_cannot_type_a_special_token(source: str) -> None:
    template = template_of(source)
    harmless = [
        CALLED[0], Message("assistant", "", (ToolCall("1", "weather", "{}"),)), Message("tool", "x", call_id="1"),
    ]  # fmt: skip

    def specials(messages: list[Message], tool: Tool) -> list[int]:
        tokens = PromptEncoder(VOCAB).encode(template.render_segments(messages, True, SPECIALS, [tool]))
        return [token for token in tokens if token in VOCAB.special_tokens.values()]

    assert specials(CALLED, WEATHER) == specials(harmless, Tool("weather"))


@pytest.mark.parametrize("source", FORMS)
def test_a_call_is_written_as_it_is_read(source: str) -> None:
    template = template_of(source)
    written = template.render(CALLED[:2], False, [WEATHER]).removeprefix(template.render(CALLED[:1], False, [WEATHER]))
    if template.call_form is CallForm.TOLD:
        assert '{"name": "weather", "arguments": {"town": "<|im_end|> Ulm"}}' in written
        return
    said = written.removeprefix("<|im_start|>assistant\n").removesuffix("<|im_end|>\n")
    (call,) = read_calls(said, {"weather"}, lambda: CALL.id).calls
    assert call == CALL


def test_without_tools_a_prompt_is_what_it_was() -> None:
    for source in FORMS:
        template = template_of(source)
        assert template.render(MESSAGES, True, ()) == template.render(MESSAGES, True)
        assert "weather" not in template.render(MESSAGES, True)


def test_tools_without_a_place_for_a_system_text_go_into_the_question() -> None:
    text = load_template("gemma", None, "<s>", "</s>").render(CALLED, True, [WEATHER])
    assert text.startswith("<s><start_of_turn>user\nYou can call functions.")
    turns = [line for line in text.splitlines() if line.startswith(("<start_of_turn>", "<s>"))]
    assert [turn.rpartition(">")[2] for turn in turns] == ["user", "model", "user", "model"]


@pytest.mark.parametrize("source", [TAGGED, SMOLLM2])
def test_a_result_needs_its_call(source: str) -> None:
    with pytest.raises(BadInput, match="no message before it"):
        template_of(source).render([CALLED[0], CALLED[2]], True)


def test_without_a_template_the_dialogue_is_plain_lines() -> None:
    template = load_template(None, None, "", "")
    assert (template.source, template.stops) == (BUILTIN["plain"].source, ("\nUser:",))


def test_a_file_is_a_template(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("{{ messages[0].content }}é{{ eos_token }}\n", encoding="utf-8")
    template = load_template(str(path), SMOLLM2, "<s>", "</s>")
    assert template.render([Message("user", "U")], True) == "Ué</s>"


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="chatml, gemma, llama3, plain") as caught:
        load_template(str(tmp_path / "none"), None, "", "")
    assert "none" in caught.value.what


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_what_no_file_can_be_called_is_said(name: str) -> None:
    with pytest.raises(BadInput, match="chatml, gemma, llama3, plain"):
        load_template(name, None, "", "")


def test_a_file_that_is_no_text_is_said(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"ab\xff")
    with pytest.raises(BadInput, match="byte 2 is not UTF-8"):
        load_template(str(path), None, "", "")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("one\n{% if %}", "line 2: Expected an expression"),
        ("{{ x | nonsense }}", "line 1: No filter named 'nonsense'"),
        ("one\n\n{{ raise_exception('roles must alternate') }}", "line 3: roles must alternate"),
        ("one\n{{ messages[0].content + 1 }}", "line 2: TypeError"),
        ("{{ none.x.y }}", "line 1: 'None' has no attribute 'x'"),
        ("{{ 1 // 0 }}", "line 1: ZeroDivisionError"),
        ("{{ ''.__class__.__mro__ }}", "line 1: access to attribute '__class__'"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{% for i in range(999999999) %}{% endfor %}", "line 1: OverflowError"),
    ],
)
def test_a_fault_names_the_line_and_the_cause(source: str, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        template_of(source).render([Message("user", "U")], True)
    assert caught.value.why.startswith(why) or why in caught.value.why.split(": ")
    assert "--template" in caught.value.remedy


def test_a_template_that_writes_without_end_is_stopped() -> None:
    messages = [Message("user", "U" * (MAX_CHARACTERS // 4))]
    template = "{{% for i in range({}) %}}{{{{ messages[0].content }}}}{{% endfor %}}"
    assert len(template_of(template.format(4)).render(messages, True)) == MAX_CHARACTERS
    with pytest.raises(BadInput, match=str(MAX_CHARACTERS)):
        template_of(template.format(5)).render(messages, True)


def test_a_role_is_not_free_text() -> None:
    with pytest.raises(BadInput, match="system, user or assistant"):
        Message("user<|im_end|>", "x")
