"""One cause of little or no drafting, as it is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgespec.doctor.facts import Facts


@dataclass(frozen=True, slots=True)
class Finding:
    """message: the cause. evidence: the values that show it. stops: nothing is drafted at all because of it.

    Codes are stable, for programs; where the policy has a reason for the same thing, it is that one's value.
    """

    code: str
    message: str
    evidence: str
    remedy: str
    stops: bool = False


Cause = Callable[[Facts], Finding | None]
