"""What clients get: OpenAI's bodies, with llama.cpp's `timings` and an `edgespec` object beside them, as JSON in UTF-8.

Contract: plain functions of events. `completion_tokens` are those of the text, never rejected guesses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from edgespec import __version__
from edgespec.events import Completion, Finish, Piece
from edgespec.server.scores import ScoreWriter
from edgespec.text.messages import ToolCall
from edgespec.text.toolcalls import Spoken

JsonObject = dict[str, object]
DONE = b"data: [DONE]\n\n"
# A comment in an event stream: clients skip it, proxies see that the connection is alive.
KEEP_ALIVE = b": still working\n\n"


@dataclass(frozen=True, slots=True)
class Predicted:
    """Of a text that the caller predicted: how many of its tokens the answer says, in order, and how many not."""

    n_accepted: int
    n_rejected: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The frame of one answer. created: seconds since 1970. is_chat: else it is a completion of a text. token_ids: the
    answer's are told.
    """

    id: str
    created: int
    model: str
    is_chat: bool
    token_ids: bool = False

    def whole(
        self,
        completion: Completion,
        predicted: Predicted | None,
        scores: ScoreWriter | None = None,
        spoken: Spoken | None = None,
    ) -> bytes:
        """The body of an answer that is not streamed. scores: writes log probabilities, if they were asked for. spoken:
        a chat's answer taken apart, where it may hold calls.
        """
        spoken = spoken or Spoken(completion.text)
        if self.is_chat:
            said: JsonObject = {"message": _message(spoken)}
        else:
            said = {"text": completion.text}
        logprobs = None if scores is None else scores.write(completion.scores)
        choice = {"index": 0, **said, "logprobs": logprobs, "finish_reason": _finish(completion, spoken.calls)}
        body = self._frame(choice, "chat.completion" if self.is_chat else "text_completion")
        usage = {"usage": _usage(completion, predicted)}
        details = {**_details(completion), **self._ids(completion.token_ids)}
        return encoded({**body, **usage, "timings": _timings(completion), "edgespec": details})

    def opening(self, include_usage: bool) -> bytes:
        """The event before a chat's first text; b"" for a completion."""
        if not self.is_chat:
            return b""
        return event(self._chunk({"role": "assistant", "content": ""}, "", None, include_usage))

    def events(self, pieces: Sequence[Piece], include_usage: bool, scores: ScoreWriter | None = None) -> bytes:
        """An event for each run of pieces that came from the same place. Those without text are told only where log
        probabilities or ids were asked for.
        """
        parts = []
        for source, run in groupby(pieces, key=lambda piece: piece.source):
            together = list(run)
            text = "".join(piece.text for piece in together)
            if text or scores is not None or self.token_ids:
                logprobs = None if scores is None else scores.write([one for piece in together for one in piece.scores])
                chunk = self._chunk({"content": text}, text, None, include_usage, logprobs)
                ids = [token for piece in together for token in piece.token_ids]
                details = {"source": source, "n_tokens": len(ids), **self._ids(ids)}
                parts.append(event({**chunk, "edgespec": details}))
        return b"".join(parts)

    def rounds(self, told: JsonObject, include_usage: bool) -> bytes:
        """An event without text, for clients that asked what comes of the drafts."""
        return event({**self._chunk({}, "", None, include_usage), "edgespec": told})

    def closing(
        self,
        completion: Completion,
        predicted: Predicted | None,
        include_usage: bool,
        told: JsonObject | None = None,
        calls: Sequence[ToolCall] = (),
    ) -> bytes:
        """The last events: one for each call, why it ended, the usage if it is wanted, and the end mark. told: goes
        beside the details.
        """
        deltas: list[JsonObject] = [{"tool_calls": [_call(call, place)]} for place, call in enumerate(calls)]
        called = b"".join(event(self._chunk(delta, "", None, include_usage)) for delta in deltas)
        chunk = self._chunk({}, "", _finish(completion, calls), include_usage)
        details = {**_details(completion), **(told or {})}
        end = called + event({**chunk, "timings": _timings(completion), "edgespec": details})
        if not include_usage:
            return end + DONE
        body = self._frame(None, self._chunk_kind)
        return end + event({**body, "usage": _usage(completion, predicted)}) + DONE

    def _ids(self, token_ids: Sequence[int]) -> JsonObject:
        return {"token_ids": list(token_ids)} if self.token_ids else {}

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.is_chat else "text_completion"

    def _chunk(
        self,
        delta: JsonObject,
        text: str,
        finish: str | None,
        include_usage: bool,
        logprobs: JsonObject | None = None,
    ) -> JsonObject:
        said: JsonObject = {"delta": delta} if self.is_chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": logprobs, "finish_reason": finish}
        usage: JsonObject = {"usage": None} if include_usage else {}
        return {**self._frame(choice, self._chunk_kind), **usage}

    def _frame(self, choice: JsonObject | None, kind: str) -> JsonObject:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"edgespec-{__version__}",
            "choices": [] if choice is None else [choice],
        }


def models_body(names: Sequence[str], created: int) -> bytes:
    return encoded({"object": "list", "data": [_model(name, created) for name in names]})


def model_body(name: str, created: int) -> bytes:
    return encoded(_model(name, created))


def health_body(model: str) -> bytes:
    """Enough for a program to see that this is the server it means."""
    return encoded({"status": "ok", "version": __version__, "model": model})


def event(value: JsonObject) -> bytes:
    return b"data: " + encoded(value) + b"\n\n"


def encoded(value: JsonObject) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _message(spoken: Spoken) -> JsonObject:
    calls = [_call(call) for call in spoken.calls]
    content = None if calls and not spoken.text else spoken.text
    called: JsonObject = {"tool_calls": calls} if calls else {}
    return {"role": "assistant", "content": content, "refusal": None, **called}


def _call(call: ToolCall, place: int | None = None) -> JsonObject:
    """place: which of the answer's calls it is, for a stream."""
    placed: JsonObject = {} if place is None else {"index": place}
    function = {"name": call.name, "arguments": call.arguments}
    return {**placed, "id": call.id, "type": "function", "function": function}


def _finish(completion: Completion, calls: Sequence[ToolCall]) -> str:
    return "tool_calls" if calls and completion.finish is Finish.STOP else completion.finish.value


def _model(name: str, created: int) -> JsonObject:
    return {"id": name, "object": "model", "created": created, "owned_by": "edgespec"}


def _usage(completion: Completion, predicted: Predicted | None) -> JsonObject:
    usage = completion.usage
    details: JsonObject = {"reasoning_tokens": 0}
    if predicted is not None:
        details["accepted_prediction_tokens"] = predicted.n_accepted
        details["rejected_prediction_tokens"] = predicted.n_rejected
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": completion.timings.cached_prompt_tokens},
        "completion_tokens_details": details,
    }


def _timings(completion: Completion) -> JsonObject:
    """llama.cpp's names. prompt_n: tokens that had to be read; cache_n: those that were cached."""
    timings, usage = completion.timings, completion.usage
    n_read = usage.prompt_tokens - timings.cached_prompt_tokens
    return {
        "cache_n": timings.cached_prompt_tokens,
        "prompt_n": n_read,
        "prompt_ms": 1000.0 * timings.prompt_seconds,
        "prompt_per_second": n_read / timings.prompt_seconds if timings.prompt_seconds > 0 else 0.0,
        "predicted_n": usage.completion_tokens,
        "predicted_ms": 1000.0 * timings.decode_seconds,
        "predicted_per_second": timings.tokens_per_second,
        "draft_n": timings.draft_n,
        "draft_n_accepted": timings.draft_n_accepted,
    }


def _details(completion: Completion) -> JsonObject:
    """What llama.cpp has no names for. speedup: against plain decoding; null where it was not measured."""
    timings = completion.timings
    measured = timings.plain_seconds > 0 and timings.decode_seconds > 0
    return {
        "seed": timings.seed,
        "exact": timings.exact,
        "passes": timings.passes,
        "drafter": timings.drafter,
        "speedup": timings.plain_seconds / timings.decode_seconds if measured else None,
        "first_token_ms": 1000.0 * timings.first_token_seconds,
        "notices": [{"code": notice.code, "message": notice.message} for notice in completion.notices],
    }
