"""Every entry of the ledgers that kept drafting from being slow, on disk, and whether they kept what they promise.

Each start of an engine has ledgers of its own, one per arm, and so files of its own: `ledger-ARM-N.jsonl`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from edgespec.engine import DraftChoice
from edgespec.errors import DiskFull
from edgespec.spec.ledger import Entry, Replay, replay


class Journal:
    """Made before the engine that it belongs to, which calls `note` in its own thread after every round; so that only
    remembers, and `flush` writes.
    """

    def __init__(self) -> None:
        self._noted: list[tuple[DraftChoice, Entry]] = []
        self._number = 0

    def note(self, choice: DraftChoice, entry: Entry) -> None:
        self._noted.append((choice, entry))

    def flush(self, folder: Path) -> None:
        """Called between two answers, always with the same folder. Raises DiskFull."""
        if not self._number:
            self._number = 1 + max((_number(path) for path in folder.glob("ledger-*.jsonl")), default=0)
        noted, self._noted = self._noted, []
        for arm in dict.fromkeys(arm for arm, _ in noted):
            path = folder / f"ledger-{arm.value}-{self._number}.jsonl"
            lines = [json.dumps(list(asdict(entry).values())) + "\n" for name, entry in noted if name == arm]
            try:
                with path.open("a", encoding="utf-8") as stream:
                    stream.writelines(lines)
            except OSError as error:
                raise DiskFull(f"{path}", error.strerror or str(error), "make room and go on") from error


def replays(folder: Path) -> dict[str, list[Replay]]:
    """By arm, the replay of every start's entries. Entries behind a line that is none are left out: they are no ledger
    of their own.
    """
    found: dict[str, list[Replay]] = {}
    for path in sorted(folder.glob("ledger-*.jsonl"), key=lambda path: (path.name.split("-")[1], _number(path))):
        entries = list(_entries(path))
        if entries:
            found.setdefault(path.name.split("-")[1], []).append(replay(entries))
    return found


def _entries(path: Path) -> Iterator[Entry]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                seconds, draft, n_emitted, t1, bound, risk, invested, n_rounds = json.loads(line)
                account = float(bound), float(risk), float(invested), int(n_rounds)
                yield Entry(float(seconds), float(draft), int(n_emitted), float(t1), *account)
            except (ValueError, TypeError):
                return


def _number(path: Path) -> int:
    last = path.stem.rpartition("-")[2]
    return int(last) if last.isdigit() else 0
