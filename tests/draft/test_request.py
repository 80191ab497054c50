"""Which report counts, and what a commit makes of it."""

from __future__ import annotations

import pytest

from edgespec.draft.messages import Behind, Drafted, Failed
from edgespec.draft.request import Request


def drafted(epoch: int, n_accepted: int, token: int, n: int, is_finished: bool = False) -> Drafted:
    return Drafted(0, epoch, n_accepted, token, (1,) * n, (1.0,) * n, is_finished)


def test_a_beginning() -> None:
    request = Request(None, 5, (1, 2, 9))
    assert (request.begun, request.n_behind, request.outcome) == (5, 2, (0, 9))
    assert request.found is None
    assert not request.has(0)
    request.take(drafted(5, 0, 9, 2))
    assert (request.has(2), request.has(3)) == (True, False)
    request.take(drafted(5, 0, 9, 2, is_finished=True))
    assert request.has(3)
    assert Request(None, 1, ()).outcome == (0, -1)


@pytest.mark.parametrize(
    ("path", "token", "n_accepted", "is_hit"),
    [([], 7, 0, True), ([0, 1], 7, 2, True), ([0], 7, 1, False), ([0, 1], 8, 2, False), ([0, 2], 7, -1, False)],
)
def test_an_outcome_is_a_hit_if_its_draft_is_there(path: list[int], token: int, n_accepted: int, is_hit: bool) -> None:
    request = Request(None, 1, (1,))
    request.renew(2)
    request.verified = (4, 5)
    for known in (drafted(2, 0, 7, 1), drafted(2, 2, 7, 3), drafted(2, 1, 7, 0), drafted(1, 2, 8, 1)):
        request.take(known)
    assert request.conclude(path, (4, 5, 6, token)) == n_accepted
    assert request.is_hit is is_hit
    assert request.has(1) is is_hit
    request.renew(3)
    assert (request.found, request.is_hit) == (None, False)


def test_a_path_longer_than_the_verified_draft_is_another_one() -> None:
    request = Request(None, 1, (1,))
    request.verified = (4,)
    assert request.conclude([0, 1], (4, 5, 6)) == -1
    assert request.conclude([], (6,)) == 0  # no pass at all


def test_reports_from_before_the_beginning_are_of_another_sequence() -> None:
    request = Request(None, 5, (1, 2, 3))
    for report in (Behind(0, 4, 0), Failed(0, 4, RuntimeError()), drafted(4, 0, 3, 1)):
        request.take(report)
    assert (request.n_behind, request.failure, request.found) == (2, None, None)
    request.take(drafted(5, 0, 3, 1))
    request.take(Behind(0, 6, 1))
    request.take(Failed(0, 5, RuntimeError("no memory")))
    assert (request.n_behind, str(request.failure), request.found) == (1, "no memory", None)
