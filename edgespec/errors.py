"""Every error a user can cause: what failed (with the value), why, and what to do about it.

The command line prints the sentence on stderr and leaves with the class's exit code; programs catch `EdgeSpecError`.
"""

from __future__ import annotations

from typing import ClassVar


class EdgeSpecError(Exception):
    """One sentence in three parts. `what` names the failing value, `why` the cause, `remedy` the next step."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, why: str, remedy: str) -> None:
        super().__init__(what, why, remedy)
        self.what = what
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        end = "" if self.remedy.endswith(("?", "!", ".")) else "."
        return f"{self.what}: {self.why}; {self.remedy}{end}"


class ModelNotFound(EdgeSpecError):
    exit_code = 3


class CorruptModel(EdgeSpecError):
    """A GGUF that is truncated, damaged, or no GGUF at all."""

    exit_code = 4


class UnsupportedModel(EdgeSpecError):
    exit_code = 5


class NotEnoughMemory(EdgeSpecError):
    exit_code = 6


class ContextOverflow(EdgeSpecError):
    exit_code = 7


class ChecksumMismatch(EdgeSpecError):
    exit_code = 8


class NetworkUnavailable(EdgeSpecError):
    """No network, or one that `--offline` forbids."""

    exit_code = 9


class DiskFull(EdgeSpecError):
    exit_code = 10


class EngineFailure(EdgeSpecError):
    """The inference library itself failed; `why` carries its last log line."""

    exit_code = 11


class LicenceNotAccepted(EdgeSpecError):
    exit_code = 12


class BadInput(EdgeSpecError):
    """A file or value the user gave cannot be used: transcript, template, predicted text, configuration."""

    exit_code = 13


class MissingExtra(EdgeSpecError):
    """An optional dependency is needed and not installed."""

    exit_code = 14


class NotMeasured(EdgeSpecError):
    """There is no table of what passes cost with this model on this machine."""

    exit_code = 15


class PairMismatch(EdgeSpecError):
    """A draft whose token ids do not mean what the target's mean."""

    exit_code = 16


class GivenUp(EdgeSpecError):
    """The caller's progress callback returned False: a download, a load or a measurement ended there."""

    exit_code = 17


class StaleRows(RuntimeError):
    """A programming error: a `Rows` object was read after its target's next call."""
