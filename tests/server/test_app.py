"""The routes, by the official client and by bare HTTP, over a toy GGUF."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam
from openai.types.shared_params import ResponseFormatJSONSchema

from edgespec import __version__
from edgespec.engine import Engine, GenerateOptions
from edgespec.server.desk import Limits
from edgespec.server.wire import Defaults
from edgespec.spec.law import SamplingSettings
from edgespec.text.vocab import Segment
from tests.server.serving import Running, running, until

QUESTION = "the old man and the river and the old man and the river and the old man"
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]


def said(engine: Engine, question: str = QUESTION, max_tokens: int = 24) -> str:
    """What the engine answers by itself, greedily."""
    with engine.conversation() as conversation:
        return conversation.say(question, GenerateOptions(max_tokens=max_tokens)).text


def extra(model: object, name: str) -> Any:
    fields = getattr(model, "model_extra", None)
    assert isinstance(fields, dict)
    return fields[name]


def error_of(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = body["error"]
    return error


# -- the official client ----------------------------------------------------------------------------------------


def test_a_chat_by_the_official_client(client: OpenAI, engine: Engine) -> None:
    got = client.chat.completions.create(model="gpt-4o", messages=MESSAGES, temperature=0)
    (choice,) = got.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == said(engine)
    assert choice.finish_reason == "length"
    assert got.model == engine.name
    assert got.id.startswith("chatcmpl-")
    assert got.usage is not None
    assert got.usage.completion_tokens == 24
    assert got.usage.total_tokens == got.usage.prompt_tokens + 24


def test_a_stream_says_the_same_in_pieces(client: OpenAI, engine: Engine) -> None:
    chunks = list(
        client.chat.completions.create(
            model="x", messages=MESSAGES, temperature=0, stream=True, stream_options={"include_usage": True}
        )
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == said(engine)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    *others, last = chunks
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 24
    assert all(chunk.usage is None for chunk in others)


def test_without_include_usage_a_stream_has_none(client: OpenAI) -> None:
    chunks: list[ChatCompletionChunk] = list(
        client.chat.completions.create(model="x", messages=MESSAGES, max_tokens=4, stream=True)
    )
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    assert len(chunks) > 2


def test_a_text_is_gone_on_with(client: OpenAI, engine: Engine) -> None:
    expected = engine.complete(QUESTION, GenerateOptions(max_tokens=8)).completion()
    whole = client.completions.create(model="x", prompt=QUESTION, temperature=0, max_tokens=8)
    assert whole.choices[0].text == expected.text
    chunks = client.completions.create(model="x", prompt=[QUESTION], temperature=0, max_tokens=8, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == expected.text
    tokens = engine.encoder.encode([Segment(QUESTION, trusted=False)])
    by_tokens = client.completions.create(model="x", prompt=tokens, temperature=0, max_tokens=8)
    assert by_tokens.choices[0].text == expected.text
    assert by_tokens.usage is not None
    assert by_tokens.usage.prompt_tokens == len(tokens)


def test_a_stop_ends_an_answer_and_is_not_part_of_it(client: OpenAI, engine: Engine) -> None:
    text = said(engine)
    stop = text[9:12]
    got = client.chat.completions.create(model="x", messages=MESSAGES, temperature=0, stop=[stop])
    assert got.choices[0].message.content == text[: text.index(stop)]
    assert got.choices[0].finish_reason == "stop"


def test_a_seed_gives_the_same_answer_and_is_told(client: OpenAI) -> None:
    def ask(seed: int | None) -> tuple[str | None, int]:
        got = client.chat.completions.create(model="x", messages=MESSAGES, temperature=1.5, seed=seed)
        return got.choices[0].message.content, extra(got, "edgespec")["seed"]

    first, again, other, negative = ask(7), ask(7), ask(8), ask(-1)
    assert first == again
    assert first[0] != other[0]
    assert negative[1] == 2**64 - 1


def test_a_seed_is_drawn_where_the_server_has_none(engine: Engine) -> None:
    with running(engine, defaults=Defaults(GenerateOptions(max_tokens=4))) as other, other.http() as http:
        bodies = [http.post("/v1/completions", json={"prompt": "the"}).json() for _ in range(2)]
    assert bodies[0]["edgespec"]["seed"] != bodies[1]["edgespec"]["seed"]


def test_every_sampler_reaches_the_engine(server: Running, engine: Engine) -> None:
    sampling = SamplingSettings(
        temperature=0.9, top_k=30, top_p=0.8, min_p=0.01, repeat_penalty=1.1, frequency_penalty=0.2,
        presence_penalty=0.3, penalty_last_n=9, seed=5, logit_bias=((101, 3.0),),
    )  # fmt: skip
    expected = engine.complete("the river", GenerateOptions(sampling, max_tokens=12)).text
    body = {
        "prompt": "the river", "max_tokens": 12, "temperature": 0.9, "top_k": 30, "top_p": 0.8, "min_p": 0.01,
        "repeat_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": 0.3, "repeat_last_n": 9, "seed": 5,
        "logit_bias": {"101": 3.0},
    }  # fmt: skip
    with server.http() as http:
        assert http.post("/v1/completions", json=body).json()["choices"][0]["text"] == expected


# -- log probabilities ------------------------------------------------------------------------------------------


def test_a_chat_tells_log_probabilities(client: OpenAI, engine: Engine) -> None:
    with engine.conversation() as conversation:
        expected = conversation.say(QUESTION, GenerateOptions(max_tokens=24, n_top_logprobs=3)).completion()
    got = client.chat.completions.create(model="x", messages=MESSAGES, temperature=0, logprobs=True, top_logprobs=3)
    (choice,) = got.choices
    assert choice.logprobs is not None
    content = choice.logprobs.content
    assert content is not None
    assert [one.logprob for one in content] == [score.logprob for score in expected.scores]
    assert [tuple(top.logprob for top in one.top_logprobs) for one in content] == [
        score.top_logprobs for score in expected.scores
    ]
    spelled = b"".join(bytes(one.bytes or ()) for one in content).decode("utf-8", "replace")
    assert spelled == choice.message.content == expected.text
    for one in content:  # it was decoded greedily
        assert (one.top_logprobs[0].token, one.top_logprobs[0].logprob) == (one.token, one.logprob)
    chunks = list(
        client.chat.completions.create(
            model="x", messages=MESSAGES, temperature=0, logprobs=True, top_logprobs=3, stream=True
        )
    )
    told = [chunk.choices[0].logprobs for chunk in chunks]
    assert [one for part in told if part is not None for one in part.content or ()] == content
    for chunk, part in zip(chunks, told, strict=True):
        pieces = b"".join(bytes(one.bytes or ()) for one in (part and part.content) or ())
        assert pieces.decode("utf-8", "replace") == (chunk.choices[0].delta.content or "")


def test_a_completion_tells_log_probabilities(client: OpenAI) -> None:
    got = client.completions.create(model="x", prompt=QUESTION, temperature=0, max_tokens=12, logprobs=3)
    whole = got.choices[0].logprobs
    assert whole is not None
    assert whole.tokens is not None
    assert whole.text_offset is not None
    assert whole.top_logprobs is not None
    assert whole.token_logprobs is not None
    assert "".join(whole.tokens) == got.choices[0].text
    for place, token in zip(whole.text_offset, whole.tokens, strict=True):
        assert got.choices[0].text[place:].startswith(token)
    assert len(whole.tokens) == 12
    assert [max(top.values()) for top in whole.top_logprobs] == whole.token_logprobs
    assert all(1 <= len(top) <= 3 for top in whole.top_logprobs)
    chunks = list(
        client.completions.create(model="x", prompt=QUESTION, temperature=0, max_tokens=12, logprobs=3, stream=True)
    )
    told = [chunk.choices[0].logprobs for chunk in chunks]
    assert [one for part in told if part is not None for one in part.tokens or ()] == whole.tokens
    assert [one for part in told if part is not None for one in part.text_offset or ()] == whole.text_offset
    assert [one for part in told if part is not None for one in part.top_logprobs or ()] == whole.top_logprobs
    unasked = client.completions.create(model="x", prompt=QUESTION, temperature=0, max_tokens=12)
    assert unasked.choices[0].logprobs is None


def test_log_probabilities_do_not_show_what_was_drafted_and_end_at_a_stop(server: Running, engine: Engine) -> None:
    text = said(engine)
    with server.http() as http:

        def ask(draft: str, **more: object) -> dict[str, Any]:
            body = {
                "messages": MESSAGES, "temperature": 0.8, "seed": 4, "logprobs": True, "top_logprobs": 5, **more,
                "prediction": {"type": "content", "content": text}, "edgespec": {"draft": draft, "exact": True},
            }  # fmt: skip
            choice: dict[str, Any] = http.post("/v1/chat/completions", json=body).json()["choices"][0]
            return choice

        plain, drafted = ask("off"), ask("lookup")
        answer = plain["message"]["content"]
        cut = ask("lookup", stop=[answer[8:11]])
    assert drafted == plain
    content = cut["logprobs"]["content"]
    assert content == plain["logprobs"]["content"][: len(content)]
    assert len(content) < len(plain["logprobs"]["content"])
    spelled = b"".join(bytes(one["bytes"]) for one in content).decode("utf-8", "replace")
    assert spelled.startswith(cut["message"]["content"])


def test_a_stream_tells_the_scores_of_a_call_too(server: Running) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
    body = {
        "messages": MESSAGES, "temperature": 0, "max_tokens": 120, "logprobs": True, "tools": [tool],
        "tool_choice": "required", "edgespec": {"exact": True},
    }  # fmt: skip
    with server.http() as http:
        whole = http.post("/v1/chat/completions", json=body).json()
        chunks = events_of(http.post("/v1/chat/completions", json={**body, "stream": True}).text)
    assert whole["choices"][0]["message"]["tool_calls"]
    told = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    content = whole["choices"][0]["logprobs"]["content"]
    assert [one for part in told if part for one in part["content"]] == content
    assert len(content) == whole["usage"]["completion_tokens"]


# -- prescribed forms -------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"sort": {"enum": ["river", "bridge"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["sort", "count"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("draft", ["off", "lookup"])
def test_an_answer_has_the_form_of_a_schema(client: OpenAI, draft: str) -> None:
    form: ResponseFormatJSONSchema = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA}}
    asked = {"edgespec": {"draft": draft}}
    got = client.chat.completions.create(
        model="x", messages=MESSAGES, temperature=1.0, max_tokens=200, seed=1, response_format=form, extra_body=asked
    )
    thing = json.loads(got.choices[0].message.content or "")
    assert set(thing) == {"sort", "count"}
    assert got.choices[0].finish_reason == "stop"


def test_a_json_object_streams(client: OpenAI) -> None:
    chunks = client.chat.completions.create(
        model="x", messages=MESSAGES, temperature=0, max_tokens=40, stream=True, response_format={"type": "json_object"}
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text.startswith("{")


def test_a_schema_that_cannot_be_followed_is_refused_and_costs_no_place(server: Running) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "thing", "schema": {"type": "no-such-type"}}}
    with server.http() as http:
        response = http.post("/v1/chat/completions", json={"messages": MESSAGES, "response_format": form})
    assert response.status_code == 400
    assert "'thing'" in error_of(response)["message"]
    assert server.n_open() == 0


# -- drafting ---------------------------------------------------------------------------------------------------


def test_a_prediction_is_drafted_from_and_counted(client: OpenAI, engine: Engine) -> None:
    text = said(engine, max_tokens=24)
    got = client.chat.completions.create(
        model="x", messages=MESSAGES, temperature=0, prediction={"type": "content", "content": text + " nevermore"}
    )
    assert got.choices[0].message.content == text
    assert extra(got, "timings")["draft_n_accepted"] > 0
    assert extra(got, "edgespec")["drafter"] == "given"
    assert got.usage is not None
    details = got.usage.completion_tokens_details
    assert details is not None
    predicted = engine.vocab.tokenize(text + " nevermore")
    assert details.accepted_prediction_tokens is not None
    assert details.rejected_prediction_tokens is not None
    assert details.accepted_prediction_tokens > 12
    assert details.accepted_prediction_tokens + details.rejected_prediction_tokens == len(predicted)


def test_usage_and_text_are_the_same_whatever_is_drafted(server: Running) -> None:
    prediction = {"type": "content", "content": QUESTION}
    with server.http() as http:
        bodies = [
            http.post(
                "/v1/completions",
                json={
                    "prompt": QUESTION, "temperature": 0, "prediction": prediction,
                    "edgespec": {"draft": draft, "exact": True},
                },
            ).json()
            for draft in ("off", "lookup", "auto")
        ]  # fmt: skip
    assert all(body["choices"] == bodies[0]["choices"] for body in bodies)
    assert all(body["usage"] == bodies[0]["usage"] for body in bodies)
    assert all(body["edgespec"]["exact"] for body in bodies)


def test_drafts_are_counted_and_their_pieces_are_marked(server: Running) -> None:
    body = {"prompt": QUESTION, "temperature": 0, "max_tokens": 40, "stream": True, "edgespec": {"draft": "lookup"}}
    with server.http() as http:
        events = events_of(http.post("/v1/completions", json=body).text)
    sources = {event["edgespec"]["source"]: event for event in events if "source" in event.get("edgespec", {})}
    timings = events[-1]["timings"]
    assert timings["draft_n"] >= timings["draft_n_accepted"]
    assert timings["predicted_n"] == 40
    assert ("lookup" in sources) == (timings["draft_n_accepted"] > 0)
    assert sum(e["edgespec"].get("n_tokens", 0) for e in events) == 40


def test_the_next_turn_reads_only_what_is_new(server: Running) -> None:
    first = [{"role": "user", "content": "what does the dog say to the old man by the river"}]
    with server.http() as http:

        def ask(messages: list[dict[str, str]], **edgespec: object) -> dict[str, Any]:
            body = {"messages": messages, "temperature": 0, "max_tokens": 8, "edgespec": edgespec}
            answer: dict[str, Any] = http.post("/v1/chat/completions", json=body).json()
            return answer

        answered = ask(first)["choices"][0]["message"]
        second = [*first, answered, {"role": "user", "content": "and the cat"}]
        again, exact = ask(second), ask(second, exact=True)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 10
    assert exact["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert again["timings"]["cache_n"] + again["timings"]["prompt_n"] == again["usage"]["prompt_tokens"]


def test_a_second_model_that_is_not_there_is_refused(server: Running) -> None:
    with server.http() as http:
        response = http.post("/v1/completions", json={"prompt": "a", "edgespec": {"draft": "model"}})
    assert response.status_code == 400
    assert error_of(response)["param"] == "edgespec.draft"


# -- errors -----------------------------------------------------------------------------------------------------


def test_errors_reach_the_official_client_as_its_own(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature") as bad:
        client.chat.completions.create(model="x", messages=MESSAGES, temperature=1e9)
    assert bad.value.code == "invalid_value"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model="x", messages=[{"role": "user", "content": "the river " * 2000}])
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as streamed:
        client.completions.create(model="x", prompt="the river " * 2000, stream=True)
    assert streamed.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("gpt-4o")
    assert missing.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"tools": [{"type": "function", "function": {"name": "f g"}}]}, "tools[0].function.name"),
        ({"n": 2}, "n"),
        ({"temprature": 1}, "temprature"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(server: Running, asked: dict[str, object], param: str) -> None:
    with server.http() as http:
        response = http.post("/v1/chat/completions", json={"messages": MESSAGES, **asked})
    assert response.status_code == 400
    assert error_of(response)["param"] == param
    assert error_of(response)["type"] == "invalid_request_error"


def test_unknown_paths_and_methods_have_error_bodies(server: Running) -> None:
    with server.http() as http:
        for response, status in ((http.get("/v1/nothing"), 404), (http.get("/v1/completions"), 405)):
            assert response.status_code == status
            assert error_of(response)["code"] == "unknown_url"


def test_a_body_must_be_json_by_its_header_too(server: Running) -> None:
    with server.http() as http:
        plain = http.post("/v1/completions", content=b'{"prompt": "a"}', headers={"content-type": "text/plain"})
        broken = http.post("/v1/completions", content=b"{", headers={"content-type": "application/json"})
    assert (plain.status_code, broken.status_code) == (415, 400)
    assert error_of(broken)["code"] == "invalid_json"


def test_bodies_that_are_too_long_or_too_slow_are_refused(engine: Engine) -> None:
    with running(engine, limits=Limits(max_body_bytes=1000, body_seconds=0.2)) as small:
        with small.http() as http:
            assert http.post("/v1/completions", json={"prompt": "a" * 2000}).status_code == 413
        with socket.create_connection(("127.0.0.1", small.port)) as slow:
            head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            slow.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            assert b" 408 " in slow.recv(1000)
        until(lambda: small.n_open() == 0)


# -- watchers ---------------------------------------------------------------------------------------------------


def test_models_and_health(client: OpenAI, server: Running, engine: Engine) -> None:
    (model,) = client.models.list().data
    assert model.id == engine.name
    assert client.models.retrieve(engine.name).owned_by == "edgespec"
    with server.http() as http:
        assert http.get("/health").json() == {"status": "ok", "version": __version__, "model": engine.name}


def test_metrics_count_what_was_served(engine: Engine) -> None:
    with running(engine) as fresh, fresh.http() as http:
        http.post("/v1/completions", json={"prompt": "the", "max_tokens": 6, "temperature": 0})
        http.post("/v1/completions", json={"prompt": 1})
        until(lambda: fresh.n_open() == 0)
        assert fresh.metric("edgespec_completion_tokens_total") == 6
        assert fresh.metric('edgespec_answers_total{finish="length"}') == 1
        assert fresh.metric('edgespec_refusals_total{status="400"}') == 1
        assert fresh.metric("edgespec_first_token_seconds_count") == 1
        assert http.get("/metrics").headers["content-type"].startswith("text/plain")


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a stream, which must be well formed and end with the mark."""
    lines = [line for line in text.split("\n\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
