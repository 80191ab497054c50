"""What a pass may hold: every bound from both sides."""

from __future__ import annotations

import pytest

from edgespec.backend.llama.limits import PassLimits
from edgespec.spec.ports import VerifyRequest
from edgespec.spec.tree import EMPTY, DraftTree
from tests.backend.llama.driving import ids, line, tree

LIMITS = PassLimits(max_rows=6, max_leaves=2, can_rollback=True)
STATE = PassLimits(max_rows=2, max_leaves=1, can_rollback=False)


def request(n_pending: int = 1, draft: DraftTree = EMPTY, sequence: int = 0) -> VerifyRequest:
    return VerifyRequest(sequence, ids(range(n_pending)), draft, False)


@pytest.mark.parametrize(
    ("limits", "requests", "width"),
    [
        (LIMITS, [request()], 1),
        (LIMITS, [request()], 6),
        (LIMITS, [request(3, line([1, 2, 3]))], 6),
        (LIMITS, [request(1, tree([1, 2], [-1, -1]))], 3),
        (LIMITS, [request(1, line([1, 2])), request(2, line([4]), sequence=1)], 6),
        (STATE, [request()], 1),
        (STATE, [request(), request(sequence=1)], 2),
    ],
)
def test_what_fits_is_taken(limits: PassLimits, requests: list[VerifyRequest], width: int) -> None:
    limits.check(requests, width)


@pytest.mark.parametrize(
    ("limits", "requests", "width", "why"),
    [
        (LIMITS, [], 1, "a width of 1 for 0 rows"),
        (LIMITS, [request(0, line([1]))], 3, "sequence 0 without a pending token"),
        (LIMITS, [request(2)], 1, "a width of 1 for 2 rows of 6"),
        (LIMITS, [request()], 7, "a width of 7 for 1 rows of 6"),
        (LIMITS, [request(4, line([1, 2, 3]))], 7, "a width of 7 for 7 rows of 6"),
        (LIMITS, [request(1, line([1, 2])), request(1, line([1, 2]), sequence=1)], 5, "a width of 5 for 6 rows of 6"),
        (LIMITS, [request(1, tree([1, 2, 3], [-1, -1, -1]))], 6, "a tree of 3 leaves, 2 are possible"),
        (LIMITS, [request(), request()], 2, "a sequence twice"),
        (STATE, [request()], 2, "padding without rollback"),
        (STATE, [request(2)], 2, "drafts without rollback"),
        (STATE, [request(1, line([1]))], 2, "drafts without rollback"),
        (STATE, [request(sequence=i) for i in range(3)], 3, "a width of 3 for 3 rows of 2"),
    ],
)
def test_what_does_not_fit_is_refused(limits: PassLimits, requests: list[VerifyRequest], width: int, why: str) -> None:
    with pytest.raises(ValueError, match=f"the target cannot take {why}"):
        limits.check(requests, width)
