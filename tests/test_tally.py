from __future__ import annotations

import pytest

from edgespec.events import RoundReport
from edgespec.tally import Depth, RoundTally, Tallied


def report(parents: tuple[int, ...], path: tuple[int, ...], source: str = "lookup") -> RoundReport:
    tokens = tuple(range(len(path) + 1))
    sources = (*(source for _ in path), "")
    nodes = tuple(range(10, 10 + len(parents)))
    n = len(parents)
    return RoundReport(n + 1, 0, n, len(path), tokens, sources, 0.0, 0.01, 0.01, 1, nodes, parents, path)


def test_nothing_yet() -> None:
    assert RoundTally().tallied() == Tallied()
    assert Tallied().tokens_per_pass == 0.0
    assert Depth(0, 0).acceptance == 0.0


def test_a_chain_counts_up_to_the_first_guess_that_was_wrong() -> None:
    tally = RoundTally()
    tally.add(report((-1, 0, 1), (0, 1)))
    tally.add(report((-1, 0, 1), (0, 1, 2)))
    tally.add(report((-1,), ()))
    tallied = tally.tallied()
    assert tallied.by_depth == (Depth(3, 2), Depth(2, 2), Depth(2, 1))
    assert (tallied.n_passes, tallied.n_tokens, tallied.n_drafted, tallied.n_accepted) == (3, 8, 7, 5)
    assert tallied.tokens_per_pass == pytest.approx(8 / 3)
    assert tallied.n_by_source == (("lookup", 5),)


def test_siblings_are_one_try() -> None:
    tally = RoundTally()
    tally.add(report((-1, -1, -1, 1), (1,)))
    assert tally.tallied().by_depth == (Depth(1, 1), Depth(1, 0))


def test_a_branch_that_was_not_taken_is_no_try() -> None:
    tally = RoundTally()
    tally.add(report((-1, -1, 0, 2), (1,)))
    assert tally.tallied().by_depth == (Depth(1, 1),)


def test_a_guess_that_is_the_last_token_of_an_answer_came_true() -> None:
    tally = RoundTally()
    tally.add(RoundReport(3, 0, 2, 2, (10, 11), ("lookup", "lookup"), 0.0, 0.01, 0.01, 1, (10, 11), (-1, 0), (0,)))
    assert tally.tallied().by_depth == (Depth(1, 1), Depth(1, 1))


def test_the_last_round_that_drafted_is_kept() -> None:
    tally = RoundTally()
    drafted = report((-1,), (0,))
    tally.add(drafted)
    tally.add(report((), ()))
    assert tally.tallied().last == drafted
    assert tally.tallied().n_passes == 2
