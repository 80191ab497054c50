"""What a pipelined drafter and its worker say to each other: immutable, so that nothing is shared across the threads.

Orders go to the worker, reports come back. Epochs number the passes and the beginnings of all sequences together; a
draft that is reported for another epoch than the sequence's present one is stale.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.spec.law import Law
from edgespec.spec.ports import SequenceId


@dataclass(frozen=True, slots=True)
class Begun:
    sequence: SequenceId
    epoch: int
    prompt: tuple[int, ...]
    law: Law


@dataclass(frozen=True, slots=True)
class Wanted:
    """n: tokens of a draft; it ends before one with a survival below min_survival."""

    n: int = 0
    min_survival: float = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A draft is awaited."""

    sequence: SequenceId
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Verified:
    """The target's pass over `draft` starts now. wanted: what was asked for before it, None if nothing was."""

    sequence: SequenceId
    epoch: int
    draft: tuple[int, ...]
    wanted: Wanted | None


@dataclass(frozen=True, slots=True)
class Committed:
    """n_accepted: how much of the verified draft was accepted, -1 if the accepted tokens were others."""

    sequence: SequenceId
    epoch: int
    n_accepted: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    sequence: SequenceId


@dataclass(frozen=True, slots=True)
class Stopped:
    """The worker shall close its network and end."""


Order = Begun | Asked | Verified | Committed | Ended | Stopped


@dataclass(frozen=True, slots=True)
class Behind:
    """n: tokens to be read before a draft can be made; 0 where so few are missing that it is made at once."""

    sequence: SequenceId
    epoch: int
    n: int


@dataclass(frozen=True, slots=True)
class Drafted:
    """`tokens` with their survival, behind n_accepted tokens of the verified draft and then `token`.

    is_finished: there will be no more of them, however many are asked for.
    """

    sequence: SequenceId
    epoch: int
    n_accepted: int
    token: int
    tokens: tuple[int, ...]
    survival: tuple[float, ...]
    is_finished: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The network failed at work for `sequence`, -1 if it could not be opened."""

    sequence: SequenceId
    epoch: int
    error: Exception


Report = Behind | Drafted | Failed
