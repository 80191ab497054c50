"""What policies have learnt of drafters, kept between runs: one record for each target and draft choice.

Knows no policy. Losing a record costs some answers in which drafters are tried out again, so damage is repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgespec.backend.probe import model_fingerprint
from edgespec.choice import DraftChoice
from edgespec.config import cache_dir
from edgespec.events import Notice
from edgespec.records import Records
from edgespec.spec.acceptance import Acceptance

Notify = Callable[[Notice], None]


class Profiles:
    """Of one target. notify: told once that a record was damaged."""

    def __init__(self, fingerprint: str, records: Records, notify: Notify) -> None:
        self._fingerprint = fingerprint
        self._records = records
        self._notify = notify
        self._told = False

    def load(self, choice: DraftChoice) -> Acceptance:
        """What earlier runs learnt; nothing the first time."""
        text = self._records.get(self._key(choice))
        found = _read(text) if text is not None else Acceptance()
        if (found is None or self._records.damaged) and not self._told:
            self._told = True
            self._notify(Notice("records-rebuilt", f"{self._records.path.name} was damaged and is made anew"))
        return found or Acceptance()

    def save(self, choice: DraftChoice, acceptance: Acceptance) -> None:
        """Unless nothing was learnt in this run."""
        if any(profile.n_steps for profile in acceptance.profiles.values()):
            self._records.put(self._key(choice), acceptance.to_text())

    def _key(self, choice: DraftChoice) -> str:
        return f"acceptance|{self._fingerprint}|{choice.value}"


def kept_profiles(path: Path, notify: Notify) -> Profiles:
    """Those of the target in this file."""
    return Profiles(model_fingerprint(path), Records(cache_dir() / "profiles.json"), notify)


def _read(text: str) -> Acceptance | None:
    try:
        return Acceptance.from_text(text)
    except ValueError:
        return None
