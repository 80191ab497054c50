from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.errors import BadInput
from edgespec.text.hugging import StandIns, characters_of, hugging_messages, hugging_tools
from edgespec.text.messages import Message, Tool, ToolCall
from edgespec.text.vocab import SpecialTexts

SPECIALS = SpecialTexts(("<|im_end|>", "<s>"))
TOOL = Tool("f", "describes <s>", '{"properties": {"<s>": {"enum": ["<|im_end|>"]}}}')
CALLS = (ToolCall("call_a", "f", '{"<s>": [{"b": "<|im_end|>"}, 1]}'), ToolCall("call_b", "g", "{}"))
MESSAGES = [
    Message("user", "U"),
    Message("assistant", "", CALLS),
    Message("tool", "x", call_id="call_b"),
    Message("assistant", "A"),
]


def test_the_convention() -> None:
    assert hugging_messages(MESSAGES, str) == [
        {"role": "user", "content": "U"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call00000",
                    "type": "function",
                    "function": {"name": "f", "arguments": {"<s>": [{"b": "<|im_end|>"}, 1]}},
                },
                {"id": "call00001", "type": "function", "function": {"name": "g", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "x", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "A"},
    ]
    assert hugging_tools([TOOL, Tool("g")], str) == [
        {"type": "function", "function": {"name": "f", "description": "describes <s>", "parameters": TOOL.schema}},
        {
            "type": "function",
            "function": {"name": "g", "description": "", "parameters": {"type": "object", "properties": {}}},
        },
    ]


def test_a_result_needs_a_call_before_it() -> None:
    with pytest.raises(BadInput, match="no message before it"):
        hugging_messages(MESSAGES[2:], str)


def test_every_text_that_somebody_wrote_is_guarded() -> None:
    guard = StandIns(SPECIALS, characters_of(MESSAGES, [TOOL]))
    seen = repr((hugging_messages(MESSAGES, guard), hugging_tools([TOOL], guard)))
    assert "<s>" not in seen
    assert "im_end" not in seen
    assert set(guard.originals.values()) == {"<s>", "<|im_end|>"}


@given(st.lists(st.sampled_from(["<s>", "<|im_end|>", "<|im_", "a", "\U000f0000", " "]), max_size=8).map("".join))
def test_stand_ins_stand_for_what_they_replace(text: str) -> None:
    guard = StandIns(SPECIALS, set(text))
    guarded = guard(text)
    assert guard(text) == guarded
    assert not any(special for _, special in SPECIALS.cut(guarded))
    assert "".join(guard.originals.get(character, character) for character in guarded) == text


def test_the_characters_of_everything_a_template_gets_are_known() -> None:
    assert set("U<s>|im_end|>xAdescribes") <= characters_of(MESSAGES, [TOOL])
