"""What clients get: OpenAI's bodies, with llama.cpp's `timings` and an `edgespec` object beside them, as JSON in UTF-8.

Contract: plain functions of events. `completion_tokens` are those of the text, never rejected guesses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from edgespec import __version__
from edgespec.events import Completion, Piece

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
    """The frame of one answer. created: seconds since 1970. is_chat: else it is a completion of a text."""

    id: str
    created: int
    model: str
    is_chat: bool

    def whole(self, completion: Completion, predicted: Predicted | None) -> bytes:
        """The body of an answer that is not streamed."""
        if self.is_chat:
            said: JsonObject = {"message": {"role": "assistant", "content": completion.text, "refusal": None}}
        else:
            said = {"text": completion.text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": completion.finish.value}
        body = self._frame(choice, "chat.completion" if self.is_chat else "text_completion")
        usage = {"usage": _usage(completion, predicted)}
        return encoded({**body, **usage, "timings": _timings(completion), "edgespec": _details(completion)})

    def opening(self, include_usage: bool) -> bytes:
        """The event before a chat's first text; b"" for a completion."""
        if not self.is_chat:
            return b""
        return event(self._chunk({"role": "assistant", "content": ""}, "", None, include_usage))

    def events(self, pieces: Sequence[Piece], include_usage: bool) -> bytes:
        """An event for each run of pieces that came from the same place."""
        parts = []
        for source, run in groupby(pieces, key=lambda piece: piece.source):
            together = list(run)
            text = "".join(piece.text for piece in together)
            if text:
                chunk = self._chunk({"content": text}, text, None, include_usage)
                n_tokens = sum(len(piece.token_ids) for piece in together)
                parts.append(event({**chunk, "edgespec": {"source": source, "n_tokens": n_tokens}}))
        return b"".join(parts)

    def closing(self, completion: Completion, predicted: Predicted | None, include_usage: bool) -> bytes:
        """The last events: why it ended, the usage if it is wanted, and the end mark."""
        chunk = self._chunk({}, "", completion.finish.value, include_usage)
        end = event({**chunk, "timings": _timings(completion), "edgespec": _details(completion)})
        if not include_usage:
            return end + DONE
        body = self._frame(None, self._chunk_kind)
        return end + event({**body, "usage": _usage(completion, predicted)}) + DONE

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.is_chat else "text_completion"

    def _chunk(self, delta: JsonObject, text: str, finish: str | None, include_usage: bool) -> JsonObject:
        said: JsonObject = {"delta": delta} if self.is_chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish}
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
