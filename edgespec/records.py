"""What is remembered between runs: one small JSON file of named texts, versioned, written atomically, rebuilt when
damaged.

Bottom ring: knows nothing of what it stores.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

# Raise when the meaning of stored values changes: older files are then rebuilt instead of misread.
FORMAT = 1


class Records:
    """A file of text values by text keys. Losing it costs measuring again, so damage is repaired, never raised."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = False

    def get(self, key: str) -> str | None:
        return self._read().get(key)

    def put(self, key: str, value: str) -> None:
        """Add or replace one value. A disk that cannot be written is ignored: the value is then measured again."""
        entries = self._read()
        entries[key] = value
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps({"format": FORMAT, "entries": entries}, indent=1))
        except OSError:
            return

    def _read(self) -> dict[str, str]:
        try:
            raw = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            self.damaged = True
            return {}
        if not isinstance(raw, dict) or raw.get("format") != FORMAT or not isinstance(raw.get("entries"), dict):
            self.damaged = True
            return {}
        return {key: value for key, value in raw["entries"].items() if isinstance(value, str)}


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` or leave it as it was. Raises OSError; leaves no temporary file behind."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would hide a shared EDGESPEC_HOME from other users
        os.replace(temporary, path)
    except BaseException:  # also Ctrl-C: no temporary file stays behind; raised again
        Path(temporary).unlink(missing_ok=True)
        raise
