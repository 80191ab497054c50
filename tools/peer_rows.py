"""What was measured, one line for each answer, kept on disk as it comes so that a run can go on after a stop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from edgespec.errors import BadInput
from tools.peer import Answer

# Of a prompt's digest so much is kept: enough to tell the prompts of a run apart.
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question as the tokens that every peer gets."""

    id: str
    category: str
    tokens: tuple[int, ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.tokens).encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class Key:
    """Which answer: `repeat` counts from 0."""

    digest: str
    peer: str
    repeat: int


@dataclass(frozen=True, slots=True)
class Row:
    """One answer, or why there is none. others_cpu_seconds: processor time that the other peers used meanwhile."""

    key: Key
    prompt_id: str
    category: str
    n_prompt: int
    answer: Answer | None
    failure: str
    others_cpu_seconds: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Row:
        """Raises ValueError, KeyError or TypeError for anything that `to_json` did not write."""
        raw = json.loads(line)
        answer = Answer.from_json(json.dumps(raw["answer"])) if raw["answer"] is not None else None
        key = Key(str(raw["key"]["digest"]), str(raw["key"]["peer"]), int(raw["key"]["repeat"]))
        names = (str(raw["prompt_id"]), str(raw["category"]), int(raw["n_prompt"]))
        return cls(key, *names, answer, str(raw["failure"]), float(raw["others_cpu_seconds"]))


class RowFile:
    """JSON lines, the first one with what must be the same for rows to be compared. A damaged line, such as the last
    one of a run that was killed, is measured again. Raises BadInput for a file of another run.
    """

    def __init__(self, path: Path, identity: Mapping[str, str]) -> None:
        self.path = path
        self._identity = dict(identity)
        self._rows: dict[Key, Row] = {}
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        head, *lines = text.split("\n")
        if text:
            self._check(head)
        for line in lines:
            try:
                row = Row.from_json(line)
            except (ValueError, KeyError, TypeError):
                continue
            self._rows[row.key] = row
        self._is_new = not text
        self._at_line_start = text.endswith("\n") or not text

    def _check(self, head: str) -> None:
        remedy = "give another file with --rows, or --fresh to begin anew"
        try:
            found = dict(json.loads(head)["identity"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{self.path}", "it does not begin as a file of answers", remedy) from error
        other = [name for name in {**self._identity, **found} if self._identity.get(name) != found.get(name)]
        if other:
            raise BadInput(f"{self.path}", f"it holds answers with other {', '.join(other)}", remedy)

    def done(self, key: Key) -> bool:
        """Answered; what failed is tried again."""
        return key in self._rows and self._rows[key].answer is not None

    def rows(self, keys: Iterable[Key]) -> list[Row]:
        """Those that are there."""
        return [self._rows[key] for key in keys if key in self._rows]

    def append(self, row: Row) -> None:
        self._rows[row.key] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            if self._is_new:
                file.write(json.dumps({"identity": self._identity}) + "\n")
                self._is_new = False
            file.write(("" if self._at_line_start else "\n") + row.to_json() + "\n")
        self._at_line_start = True
