"""Counters of one server in Prometheus's text format. Used by the server's loop only. Holds numbers, never texts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

from edgespec import __version__
from edgespec.events import Completion

# Upper ends of the buckets for seconds: from a cached prompt on a fast machine to a long one on a slow machine.
BUCKETS_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts observations in BUCKETS_SECONDS and above."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str) -> list[str]:
        lines, n_below = [], 0
        for end, count in zip((*map(repr, BUCKETS_SECONDS), "+Inf"), self._counts, strict=True):
            n_below += count
            lines.append(f'{name}_bucket{{le="{end}"}} {n_below}')
        return [*lines, f"{name}_sum {self._sum!r}", f"{name}_count {n_below}"]


class Metrics:
    """What has been served since the start."""

    def __init__(self) -> None:
        self._answers: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._seconds = {"prompt": 0.0, "decode": 0.0}
        self._first_token = Histogram()

    def finished(self, completion: Completion, waited_seconds: float) -> None:
        """An answer came to its end, or was cancelled. waited_seconds: before the engine began with it."""
        usage, timings = completion.usage, completion.timings
        self._answers[completion.finish.value] += 1
        self._tokens["prompt"] += usage.prompt_tokens
        self._tokens["cached_prompt"] += timings.cached_prompt_tokens
        self._tokens["completion"] += usage.completion_tokens
        self._tokens["drafted"] += timings.draft_n
        self._tokens["accepted"] += timings.draft_n_accepted
        self._tokens["passes"] += timings.passes
        self._seconds["prompt"] += timings.prompt_seconds
        self._seconds["decode"] += timings.decode_seconds
        if completion.token_ids:
            self._first_token.observe(waited_seconds + timings.first_token_seconds)

    def failed(self) -> None:
        """The engine gave an error instead of an answer."""
        self._answers["error"] += 1

    def refused(self, status: int) -> None:
        self._refusals[str(status)] += 1

    def text(self, n_open: int) -> str:
        """n_open: answers under way and waiting, right now."""
        tokens = self._tokens
        lines = [
            *_family("edgespec_info", "gauge", "The server's version.", [f'{{version="{__version__}"}} 1']),
            *_family("edgespec_open_requests", "gauge", "Answers under way and waiting.", [f" {n_open}"]),
            *_family("edgespec_answers_total", "counter", "By how they ended.", _labelled("finish", self._answers)),
            *_family("edgespec_refusals_total", "counter", "By HTTP status.", _labelled("status", self._refusals)),
            *_total("edgespec_prompt_tokens", "Of prompts.", tokens["prompt"]),
            *_total("edgespec_cached_prompt_tokens", "Of prompts, not read again.", tokens["cached_prompt"]),
            *_total("edgespec_completion_tokens", "Of answers.", tokens["completion"]),
            *_total("edgespec_drafted_tokens", "Guesses that the model checked.", tokens["drafted"]),
            *_total("edgespec_accepted_tokens", "Guesses that were right.", tokens["accepted"]),
            *_total("edgespec_passes", "Of the model, after prompts.", tokens["passes"]),
            *_total("edgespec_prompt_seconds", "Spent on reading prompts.", self._seconds["prompt"]),
            *_total("edgespec_decode_seconds", "Spent on writing answers.", self._seconds["decode"]),
            *_head("edgespec_first_token_seconds", "histogram", "From a request to its first token."),
            *self._first_token.lines("edgespec_first_token_seconds"),
        ]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, help_text: str) -> list[str]:
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]


def _family(name: str, kind: str, help_text: str, samples: Sequence[str]) -> list[str]:
    return [*_head(name, kind, help_text), *(name + sample for sample in samples)]


def _total(name: str, help_text: str, value: float) -> list[str]:
    return _family(f"{name}_total", "counter", help_text, [f" {value!r}"])


def _labelled(label: str, counts: Mapping[str, int]) -> list[str]:
    return [f'{{{label}="{key}"}} {count}' for key, count in sorted(counts.items())]
