"""Tools by the official client over a toy model, which a grammar makes speak; and what requests may say of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionNamedToolChoiceParam, ChatCompletionToolParam

from edgespec.engine import Engine, EngineOptions, GenerateOptions
from edgespec.events import Piece
from edgespec.server.fields import Fields
from edgespec.server.reading import PromptReader
from edgespec.server.refusals import Refusal
from edgespec.server.tools import (
    MAX_TOOLS,
    NO_TOOLS,
    CallScreen,
    ToolChoice,
    ToolUse,
    parse_tools,
    prescribed,
    taken_apart,
)
from edgespec.server.wire import Chat, Wanted
from edgespec.text.grammar import Grammar
from edgespec.text.messages import Message, Tool
from edgespec.text.toolcalls import CallForm
from tests.server.serving import Running, running
from tests.server.test_app import events_of
from tests.text.test_toolcalls import FRAGMENTS
from tests.text.tool_templates import LISTED, PARAMETERS, TAGGED

WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a town.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"town": {"enum": ["Paris", "Bogota"]}, "unit": {"enum": ["C", "F"]}},
            "required": ["town", "unit"],
            "additionalProperties": False,
        },
    },
}
TIME: ChatCompletionToolParam = {"type": "function", "function": {"name": "get_time"}}
QUESTION: ChatCompletionMessageParam = {"role": "user", "content": "What is the weather like in Paris today?"}


@pytest.fixture(scope="module", params=[None, TAGGED, PARAMETERS, LISTED], ids=["told", "tagged", "llama", "mistral"])
def tool_client(
    engine: Engine, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenAI]:
    """One for each form in which models are trained to call functions; the toy's own template knows none."""
    template = None
    if request.param is not None:
        path = tmp_path_factory.mktemp("template") / "tools.jinja"
        path.write_text(request.param, encoding="utf-8")
        template = str(path)
    with running(engine, template=template) as server:
        yield OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0, timeout=30.0)


def test_the_official_example(tool_client: OpenAI) -> None:
    """Ask, call what the model wants, give it the result, and get an answer."""
    messages: list[ChatCompletionMessageParam] = [QUESTION]
    tools = [WEATHER, TIME]
    got = tool_client.chat.completions.create(
        model="x", messages=messages, tools=tools, tool_choice="required", parallel_tool_calls=False, temperature=1.0,
        seed=3, max_tokens=200,
    )  # fmt: skip
    (choice,) = got.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert call.function.name in ("get_weather", "get_time")
    assert isinstance(json.loads(call.function.arguments), dict)
    # As the client's own examples do: the message goes back as it came.
    messages.append(choice.message.to_dict())  # type: ignore[arg-type]
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "14 degrees"})
    again = tool_client.chat.completions.create(
        model="x", messages=messages, tools=tools, tool_choice="none", temperature=0, max_tokens=6
    )
    assert again.choices[0].message.content
    assert again.choices[0].message.tool_calls is None
    assert again.usage is not None
    assert got.usage is not None
    assert again.usage.prompt_tokens > 20


def test_a_named_function_is_called(tool_client: OpenAI) -> None:
    named: ChatCompletionNamedToolChoiceParam = {"type": "function", "function": {"name": "get_weather"}}
    got = tool_client.chat.completions.create(
        model="x", messages=[QUESTION], tools=[TIME, WEATHER], tool_choice=named, temperature=0, max_tokens=200
    )
    calls = got.choices[0].message.tool_calls
    assert calls is not None
    (call,) = calls
    assert call.type == "function"
    assert call.function.name == "get_weather"
    arguments = json.loads(call.function.arguments)
    assert (set(arguments), arguments["unit"] in "CF") == ({"town", "unit"}, True)


@pytest.mark.parametrize("logprobs", [False, True])
def test_a_stream_sends_calls_and_none_of_their_text(tool_client: OpenAI, logprobs: bool) -> None:
    asked: dict[str, Any] = {
        "model": "x", "messages": [QUESTION], "tools": [WEATHER, TIME], "tool_choice": "required", "seed": 5,
        "parallel_tool_calls": False, "temperature": 1.0, "max_tokens": 200, "logprobs": logprobs,
    }  # fmt: skip
    whole = tool_client.chat.completions.create(**asked)
    chunks = list(tool_client.chat.completions.create(**asked, stream=True))
    assert not any(chunk.choices[0].delta.content for chunk in chunks)
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "tool_calls"
    (delta,) = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    (call,) = whole.choices[0].message.tool_calls
    assert (delta.index, delta.type) == (0, "function")
    assert delta.id is not None
    assert delta.function is not None
    assert (delta.function.name, delta.function.arguments) == (call.function.name, call.function.arguments)
    if logprobs:
        told = [one for chunk in chunks if chunk.choices[0].logprobs for one in chunk.choices[0].logprobs.content or ()]
        assert told == whole.choices[0].logprobs.content


def test_with_a_free_choice_words_are_an_answer(tool_client: OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": "x",
        "messages": [QUESTION],
        "tools": [WEATHER],
        "temperature": 0,
        "max_tokens": 9,
    }
    got = tool_client.chat.completions.create(**asked)
    assert got.choices[0].finish_reason == "length"
    assert got.choices[0].message.tool_calls is None
    assert got.choices[0].message.content
    chunks = tool_client.chat.completions.create(**asked, stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert streamed == got.choices[0].message.content


def test_a_call_is_the_same_whatever_is_drafted(server: Running) -> None:
    body = {
        "messages": [QUESTION], "tools": [WEATHER, TIME], "tool_choice": "required", "temperature": 0.9, "seed": 2,
        "max_tokens": 200,
    }  # fmt: skip
    with server.http() as http:
        answers = [
            http.post("/v1/chat/completions", json={**body, "edgespec": {"draft": draft, "exact": True}}).json()
            for draft in ("off", "lookup", "auto")
        ]
    called = [answer["choices"][0]["message"]["tool_calls"][0]["function"] for answer in answers]
    assert called[1:] == called[:1] * 2
    assert answers[1]["usage"]["completion_tokens"] == answers[0]["usage"]["completion_tokens"]


def test_a_call_that_was_cut_off_is_text(server: Running) -> None:
    body = {"messages": [QUESTION], "tools": [WEATHER], "tool_choice": "required", "temperature": 0, "max_tokens": 5}
    with server.http() as http:
        (choice,) = http.post("/v1/chat/completions", json=body).json()["choices"]
        events = events_of(http.post("/v1/chat/completions", json={**body, "stream": True}).text)
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"].startswith("{")
    assert "tool_calls" not in choice["message"]
    streamed = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
    assert streamed == choice["message"]["content"]


def test_an_answer_that_is_no_call_has_the_form_that_was_asked_for(server: Running) -> None:
    schema = {
        "type": "object",
        "properties": {"c": {"type": "boolean"}},
        "required": ["c"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}
    body = {"messages": [QUESTION], "tools": [WEATHER], "response_format": form, "temperature": 1, "max_tokens": 200}
    with server.http() as http:
        for seed in range(4):
            (choice,) = http.post("/v1/chat/completions", json={**body, "seed": seed}).json()["choices"]
            said, calls = choice["message"]["content"], choice["message"].get("tool_calls")
            assert set(json.loads(said)) == {"c"} if said else len(calls) == 1


def test_parameters_that_cannot_be_followed_are_refused(server: Running) -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "no-such-type"}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    for choice in ("auto", "required"):
        with server.http() as http:
            response = http.post(
                "/v1/chat/completions", json={"messages": [QUESTION], "tools": [tool], "tool_choice": choice}
            )
        assert response.status_code == 400
        assert response.json()["error"]["message"].startswith("the tools: ")
        assert response.json()["error"]["param"] == "tools"
    assert server.n_open() == 0


# -- what requests may say ----------------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"a": 1}}}
F, G = Tool("f", "", '{"a": 1}'), Tool("g")


def parsed(*tools: object, **request: object) -> ToolUse:
    return parse_tools(Fields({"tools": list(tools), **request}))


def test_choices() -> None:
    second = {"type": "function", "function": {"name": "g"}}
    assert parsed(TOOL) == parsed(TOOL, tool_choice="auto") == ToolUse((F,))
    assert parsed(TOOL, tool_choice="required") == ToolUse((F,), ToolChoice.REQUIRED)
    assert parsed(TOOL, tool_choice="none") == parsed() == parsed(tool_choice="auto") == NO_TOOLS
    assert not parsed(TOOL, parallel_tool_calls=False).several
    named = parsed(TOOL, second, tool_choice={"type": "function", "function": {"name": "g"}})
    assert named == ToolUse((F, G), ToolChoice.REQUIRED, "g", several=False)
    assert (named.callable, named.names) == ((G,), frozenset("g"))


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ({"tools": 3}, "tools"),
        ({"tools": [TOOL] * (MAX_TOOLS + 1)}, "tools"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [{**TOOL, "type": "custom"}]}, "tools"),
        ({"tools": [{**TOOL, "colour": 1}]}, "tools[0].colour"),
        ({"tools": [{"type": "function"}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
            "tools[0].function.parameters",
        ),
        ({"tools": [{"type": "function", "function": {"name": "f", "strict": 1}}]}, "tools[0].function.strict"),
        ({"tools": [TOOL], "tool_choice": 3}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "perhaps"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [TOOL], "parallel_tool_calls": 3}, "parallel_tool_calls"),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_what_is_wrong_is_named(request_: dict[str, object], param: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_tools(Fields(request_))
    assert refused.value.param == param


def test_what_is_prescribed() -> None:
    answer, lark = Grammar.json_object(), Grammar.lark('start: "a"')
    use = ToolUse((F, G))
    assert prescribed(NO_TOOLS, CallForm.TOLD, answer) == answer
    assert prescribed(use, CallForm.PARAMETERS, None) is None
    assert prescribed(use, CallForm.TOLD, answer) not in (None, answer)
    required = ToolUse((F, G), ToolChoice.REQUIRED, "g", several=False)
    assert prescribed(required, CallForm.TOLD, lark) == prescribed(
        ToolUse((G,), ToolChoice.REQUIRED), CallForm.TOLD, None
    )
    with pytest.raises(Refusal, match="has no calls"):
        prescribed(use, CallForm.TOLD, lark)


def test_without_the_library_a_free_choice_is_read_all_the_same(
    toy: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Wanted(Chat((Message("user", "hi"),)), GenerateOptions(), tools=ToolUse((Tool("f"),)))
    read = PromptReader(engine).read(wanted)
    assert read.options.grammar is not None
    assert read.functions == {"f"}
    with Engine.open(toy, EngineOptions(ctx_size=1024, threads=1)) as other:
        monkeypatch.setitem(sys.modules, "llguidance", None)
        unbound = PromptReader(other).read(wanted)
    assert (unbound.options.grammar, unbound.functions, unbound.tokens) == (None, frozenset("f"), read.tokens)


# -- calls on their way -------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(
    st.lists(st.lists(st.sampled_from(("", *FRAGMENTS)), max_size=3), max_size=6),
    st.sampled_from([frozenset("f"), frozenset()]),
)
def test_a_stream_says_what_the_whole_does(rounds: list[list[str]], names: frozenset[str]) -> None:
    screen, given_, n = CallScreen(names), list[Piece](), 0
    for texts in rounds:
        pieces = [Piece(text, (n + place,), "") for place, text in enumerate(texts)]
        n += len(texts)
        given_ += screen.push(pieces)
    held, spoken = screen.finish()
    whole = taken_apart("".join(text for texts in rounds for text in texts), names)
    assert spoken.text == whole.text == "".join(piece.text for piece in [*given_, *held])
    assert [(call.name, call.arguments) for call in spoken.calls] == [
        (call.name, call.arguments) for call in whole.calls
    ]
    assert [token for piece in [*given_, *held] for token in piece.token_ids] == list(range(n))


def test_words_are_not_held_back() -> None:
    screen = CallScreen({"f"})
    assert screen.push([Piece("Hello", (1,), ""), Piece(", ", (2,), "")]) == [Piece("Hello", (1,), "")]
    assert [piece.text for piece in screen.push([Piece("you", (3,), "")])] == [", ", "you"]


def test_every_call_has_an_id_of_its_own() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>' * 3
    ids = [call.id for _ in range(3) for call in taken_apart(text, {"f"}).calls]
    assert len(set(ids)) == 9
