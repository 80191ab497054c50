"""A measurement on disk: a folder with what was measured (`run.json`) and one JSON line per answer (`answers.jsonl`).

It can be gone on with at any time. Lines that are no answers, such as one cut short by a full disk, are passed over and
counted. Knows no engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from edgespec.bench.matches import Matches
from edgespec.bench.plan import Turn
from edgespec.bench.prompts import Prompt
from edgespec.errors import BadInput, DiskFull
from edgespec.records import write_atomically

HEAD, ANSWERS = "run.json", "answers.jsonl"


@dataclass(frozen=True, slots=True)
class Identity:
    """What must be the same for answers to be compared. prompts, model, tuning, code: fingerprints. sampling: as JSON.
    drafters: names of those that guess instead of the engine's own.
    """

    model: str
    library: str
    machine: str
    settings: str
    prompts: str
    arms: tuple[str, ...]
    max_tokens: int
    exact: bool
    sampling: str
    tuning: str
    code: str
    drafters: tuple[str, ...] = ()

    def to_text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Identity:
        """Raises ValueError for any other text."""
        try:
            raw = json.loads(text)
            return cls(**{**raw, "arms": tuple(raw["arms"]), "drafters": tuple(raw["drafters"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"this is no measurement: {error!r}") from error

    def differences(self, other: Identity) -> list[str]:
        """Names of what differs."""
        return [one.name for one in fields(self) if getattr(self, one.name) != getattr(other, one.name)]


@dataclass(frozen=True, slots=True)
class Measured:
    """One answer of one arm. digest: of its token ids. place: when among the arms of its turn it was asked.
    decode_seconds: from the last prompt token but one to the end; total_seconds: from asking to the end.
    plain_seconds: what the engine thinks that plain decoding would have taken, 0 if it does not know.
    matches: how the guesses fared.
    """

    prompt: str
    category: str
    arm: str
    repeat: int
    place: int
    prompt_tokens: int
    n_tokens: int
    first_token_seconds: float
    decode_seconds: float
    total_seconds: float
    passes: int
    n_drafted: int
    n_accepted: int
    loops: bool
    finish: str
    digest: str
    plain_seconds: float
    matches: Matches

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Measured:
        """Raises ValueError for a line that is no answer."""
        try:
            raw = json.loads(line)
            counts = {name: tuple(listed) for name, listed in raw["matches"].items()}
            read = cls(**{**raw, "matches": Matches(**counts)})
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"this is no answer: {error!r}") from error
        if not all(isinstance(getattr(read, one.name), _KINDS[str(one.type)]) for one in fields(cls)):
            raise ValueError("this is no answer: a value is of another kind")
        times = (read.first_token_seconds, read.decode_seconds, read.total_seconds)
        if min(times) <= 0.0 or read.n_tokens < 0 or read.passes < 0:
            raise ValueError("this is no answer: a value cannot be")
        return read


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (float, int),
    "Matches": (Matches,),
}


class Runs:
    """All answers so far. Of a turn that was asked twice, since it was broken off, the later answers count."""

    def __init__(self, measured: Iterable[Measured] = ()) -> None:
        self._measured: dict[tuple[str, int, str], Measured] = {}
        for one in measured:
            self.add(one)

    def add(self, one: Measured) -> None:
        self._measured[one.prompt, one.repeat, one.arm] = one

    def __iter__(self) -> Iterator[Measured]:
        return iter(self._measured.values())

    def has(self, turn: Turn) -> bool:
        return all((turn.prompt.id, turn.repeat, arm) in self._measured for arm in turn.arms)

    def tokens_of(self, prompt: Prompt, arm: str) -> int:
        """In the first repeat; 0 where it was not asked."""
        found = self._measured.get((prompt.id, 0, arm))
        return found.n_tokens if found else 0


class RunFolder:
    """`runs` is what the folder holds, `n_foreign` the lines that are no answers. Raises BadInput and DiskFull."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._claim(identity)
            lines = self._lines()
        except OSError as error:
            raise BadInput(
                f"--out {path}", error.strerror or str(error), "give a folder that can be written"
            ) from error
        self.runs = Runs()
        self.n_foreign = 0
        for line in lines:
            try:
                self.runs.add(Measured.from_line(line))
            except ValueError:
                self.n_foreign += 1

    def add(self, turn: list[Measured]) -> None:
        """Keep the answers of one turn, on disk first."""
        try:
            with (self.path / ANSWERS).open("a", encoding="utf-8") as stream:
                stream.write("".join(one.to_line() + "\n" for one in turn))
        except OSError as error:
            raise DiskFull(f"{self.path / ANSWERS}", error.strerror or str(error), "make room and go on") from error
        for one in turn:
            self.runs.add(one)

    def _claim(self, identity: Identity) -> None:
        head = self.path / HEAD
        if not head.exists():
            if (self.path / ANSWERS).exists():
                raise BadInput(f"--out {self.path}", f"its {HEAD} is gone", "give another folder")
            write_atomically(head, identity.to_text())
            return
        try:
            differences = identity.differences(Identity.from_text(head.read_text(encoding="utf-8")))
        except ValueError as error:
            raise BadInput(f"{head}", str(error), "give another folder with --out") from error
        if differences:
            other = ", ".join(differences)
            raise BadInput(f"--out {self.path}", f"it holds a run with other {other}", "give another folder")

    def _lines(self) -> list[str]:
        """And an end to a last line that has none, so that the next answer begins a new one."""
        path = self.path / ANSWERS
        if not path.exists():
            return []
        text = path.read_bytes().decode("utf-8", "replace")
        if text and not text.endswith("\n"):
            with path.open("a", encoding="utf-8") as stream:
                stream.write("\n")
        return [line for line in text.split("\n") if line.strip()]
