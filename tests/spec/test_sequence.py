from __future__ import annotations

import numpy as np

from edgespec.events import Finish, RoundReport
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.sequence import Counts, SequenceState

LAW = Law(SamplingSettings())


def started(max_tokens: int = 4, widths: tuple[int, ...] = ()) -> SequenceState:
    return SequenceState.start(7, [1, 2, 3], LAW, max_tokens, frozenset({9}), widths)


def ids(*tokens: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(tokens, np.int32)


def test_it_starts_with_the_prompts_last_token_pending() -> None:
    prompt = [1, 2, 3]
    state = SequenceState.start(7, prompt, LAW, 4, frozenset())
    assert (state.id, state.n_prompt, state.n_output, state.remaining) == (7, 3, 0, 4)
    assert state.pending.tolist() == [3]
    assert state.pending.dtype == np.int32
    assert not state.exact
    state.accept([5], ids(5))
    assert prompt == [1, 2, 3]  # the caller's own list


def test_a_class_of_widths_makes_it_exact() -> None:
    assert started(widths=(2, 4)).exact


def test_tokens_are_taken_over_with_what_is_pending() -> None:
    state = started()
    state.accept([5, 6], ids(6))
    assert state.tokens == [1, 2, 3, 5, 6]
    assert (state.n_output, state.remaining, state.finish) == (2, 2, None)
    assert state.pending.tolist() == [6]


def test_the_limit_ends_it() -> None:
    state = started(max_tokens=2)
    state.accept([5], ids(5))
    state.accept([6], ids(6))
    assert state.finish is Finish.LENGTH


def test_an_end_token_ends_it_also_at_the_limit() -> None:
    for tokens in ([9], [5, 9], [5, 6, 7, 9]):
        state = started(max_tokens=4)
        state.accept(tokens, ids(9))
        assert state.finish is Finish.STOP


def report(*sources: str, n_drafted: int = 0, n_padded: int = 0) -> RoundReport:
    n_accepted = sum(1 for source in sources if source)
    return RoundReport(4, n_padded, n_drafted, n_accepted, (1,) * len(sources), sources, 0.0, 0.0, 0.0)


def test_counts_are_sums_over_rounds() -> None:
    counts = Counts()
    counts.add(report("a", "b", "", n_drafted=4, n_padded=1))
    counts.add(report("a", "a", n_drafted=3))
    counts.add(report("", n_padded=2))
    assert (counts.passes, counts.n_drafted, counts.n_accepted, counts.n_padded) == (3, 7, 4, 3)
    assert counts.accepted_by == {"a": 3, "b": 1}
