"""What is said about an answer's speed: one line, sums over a session, and the JSON object of `run --json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from edgespec.events import Completion, Finish, Notice, Timings


def stats_line(completion: Completion, max_tokens: int) -> str:
    """Rates are of whole tokens over the whole answer. The speed-up is never claimed without a measurement:
    it is against what plain passes were measured to take while this answer was made."""
    timings = completion.timings
    end = ending(completion, max_tokens)
    parts = [
        *([end] if end else []),
        f"{timings.tokens_per_second:.1f} tok/s",
        f"first token {timings.first_token_seconds:.2f} s",
        f"{timings.draft_n_accepted}/{timings.draft_n} drafts accepted" if timings.draft_n else "nothing drafted",
        f"{timings.tokens_per_pass:.2f} tokens per pass",
        *([timings.drafter] if timings.drafter else []),
        *_exact_parts(timings),
        *_crowd_parts(completion),
        f"seed {timings.seed}",
        _speedup(timings),
    ]
    return " · ".join(parts)


def _speedup(timings: Timings) -> str:
    if timings.plain_seconds <= 0.0 or timings.decode_seconds <= 0.0:
        return "speed-up not measured"
    return f"{timings.plain_seconds / timings.decode_seconds:.2f}x plain"


def ending(completion: Completion, max_tokens: int) -> str:
    """Why the answer may look unfinished; "" when the model itself ended it."""
    if completion.finish is Finish.CANCELLED:
        return "stopped"
    if completion.finish is Finish.LENGTH:
        if completion.usage.completion_tokens < max_tokens:
            return "cut here: the context is full"
        return f"cut here after {max_tokens} tokens"
    return ""


def completion_json(
    completion: Completion, notices: Sequence[Notice], logprobs: dict[str, object] | None = None
) -> str:
    """One JSON object; programs may rely on these keys. `notices` are those of the engine, from before the answer.
    logprobs: a key that is there only if they were asked for.
    """
    answer = {
        "text": completion.text,
        "token_ids": completion.token_ids,
        "finish_reason": completion.finish.value,
        "usage": asdict(completion.usage),
        "timings": asdict(completion.timings),
        "notices": [asdict(notice) for notice in (*notices, *completion.notices)],
        **({} if logprobs is None else {"logprobs": logprobs}),
    }
    return json.dumps(answer)


@dataclass(slots=True)
class Totals:
    """Sums over a session's answers."""

    answers: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    passes: int = 0
    n_emitted: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_padded: int = 0

    def add(self, completion: Completion) -> None:
        timings, usage = completion.timings, completion.usage
        self.answers += 1
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += timings.cached_prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.prompt_seconds += timings.prompt_seconds
        self.decode_seconds += timings.decode_seconds
        self.passes += timings.passes
        self.n_emitted += timings.n_emitted
        self.n_drafted += timings.draft_n
        self.n_accepted += timings.draft_n_accepted
        self.n_padded += timings.padded_rows

    def rows(self) -> Iterable[tuple[str, str]]:
        rate = self.completion_tokens / self.decode_seconds if self.decode_seconds > 0 else 0.0
        share = f" ({self.n_accepted / self.n_drafted:.0%})" if self.n_drafted else ""
        yield "answers", f"{self.answers}, {self.completion_tokens} tokens"
        yield "prompts", f"{self.prompt_tokens} tokens, {self.cached_tokens} of them still in the cache"
        yield "seconds", f"{self.prompt_seconds:.1f} reading, {self.decode_seconds:.1f} answering"
        yield "speed", f"{rate:.1f} tok/s"
        yield "drafts", f"{self.n_accepted}/{self.n_drafted} drafts accepted{share}"
        yield "passes", f"{self.passes}, {self.n_emitted / max(1, self.passes):.2f} tokens per pass"
        if self.n_padded:
            yield "padding", f"{self.n_padded} rows, the price of exact"


def _exact_parts(timings: Timings) -> list[str]:
    if not timings.exact:
        return []
    return [f"exact: widths {_ranges(timings.width_class)}, {timings.padded_rows} rows padded"]


def _crowd_parts(completion: Completion) -> list[str]:
    """The engine says so once per answer that ran with fewer threads."""
    taken = any(one.code == "cores-taken" for one in completion.notices)
    return ["fewer threads: cores taken by others"] if taken else []


def _ranges(widths: Sequence[int]) -> str:
    """(2, 3, 4, 8) is 2-4, 8."""
    runs: list[list[int]] = []
    for width in widths:
        if runs and width == runs[-1][-1] + 1:
            runs[-1].append(width)
        else:
            runs.append([width])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs) or "none"
