"""A completion with numbers that can be told apart."""

from __future__ import annotations

from edgespec.events import Completion, Finish, Notice, Timings, Usage

TIMINGS = Timings(
    prompt_seconds=0.5,
    decode_seconds=2.0,
    first_token_seconds=0.05,
    tokens_per_second=4.0,
    passes=3,
    draft_n=6,
    draft_n_accepted=5,
    drafter="lookup",
    exact=True,
    width_class=(2, 4),
    padded_rows=1,
    cached_prompt_tokens=10,
    seed=9,
    plain_seconds=5.0,
)


def completion_of(text: str, timings: Timings = TIMINGS) -> Completion:
    """A token for every character."""
    ids = tuple(range(len(text)))
    return Completion(text, ids, Finish.STOP, Usage(30, len(text)), timings, (Notice("code", "a line"),))
