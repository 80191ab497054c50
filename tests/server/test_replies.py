"""Answers and their events are what the page says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.described import validator
from tests.server.serving import Running
from tests.server.test_app import events_of
from tests.server.test_parameters import MESSAGES, TOOLS


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"logprobs": True, "top_logprobs": 2, "stream_options": {"include_usage": True}},
        {"tools": TOOLS, "tool_choice": "required", "max_tokens": 100, "parallel_tool_calls": False},
        {"edgespec": {"rounds": True, "draft": "lookup"}, "prediction": {"type": "content", "content": "the river"}},
        {"edgespec": {"token_ids": True}},
    ],
)
def test_answers_and_their_events_are_as_described(server: Running, asked: dict[str, Any]) -> None:
    body: dict[str, Any] = {"messages": MESSAGES, **asked}
    with server.http() as http:
        events = events_of(http.post("/v1/chat/completions", json={**body, "stream": True}).text)
        if "rounds" in body.get("edgespec", {}):  # a stream's only
            del body["edgespec"]
        whole = http.post("/v1/chat/completions", json=body).json()
    for event in events:
        validator("ChatCompletionChunk").validate(event)
    validator("ChatCompletion").validate(whole)


def test_events_of_a_text_are_as_described(server: Running) -> None:
    body = {"prompt": "the river", "logprobs": 2, "stream_options": {"include_usage": True}}
    with server.http() as http:
        for event in events_of(http.post("/v1/completions", json={**body, "stream": True}).text):
            validator("CompletionChunk").validate(event)
        validator("Completion").validate(http.post("/v1/completions", json=body).json())


def test_errors_are_as_described(server: Running) -> None:
    with server.http() as http:
        for response in (http.get("/v1/nothing"), http.post("/v1/completions", json={"prompt": 3})):
            validator("Error").validate(response.json())
