"""A step model on disk: a folder NAME.step with `step.json`, `model.onnx`, `embedding.npy` and, under a trimmed head,
`head_ids.npy`. Written whole or not at all; whatever is damaged is named.

Knows neither how the graph is made nor how it is run.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import BadInput, CorruptModel, DiskFull, ModelNotFound, UnsupportedModel

# Raise when the meaning of the files changes: older folders are then refused instead of misread.
VERSION = 1

SUFFIX = ".step"
FACTS, GRAPH, EMBEDDING, HEAD_IDS = "step.json", "model.onnx", "embedding.npy", "head_ids.npy"
AGAIN = "make it again with 'edgespec export'"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

FloatRows = npt.NDArray[np.float16 | np.float32]


@dataclass(frozen=True, slots=True)
class RopeTable:
    """Rotary angles: position / factor * base ** (-2 i / n_dims), for i < n_dims / 2; further pairs do not turn."""

    base: float
    n_dims: int
    factor: float


@dataclass(frozen=True, slots=True)
class StepFile:
    """What `step.json` says.

    n_vocab: token ids of the target that the model was made for. layers: numbers of the source's blocks that were kept.
    embedding_scale: the embedding's rows are multiplied by it. rope: one table, or a global one and that of windowed
    blocks. rows: the row counts that a run may have, ascending. n_ctx: cells at most. n_ranked: tokens a run returns
    per row. token_hash: of the vocabulary's spellings. sliding_window: tokens that windowed blocks see, 0 without such.
    """

    architecture: str
    source_name: str
    source_fingerprint: str
    layers: tuple[int, ...]
    n_vocab: int
    width: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    n_blocks: int
    embedding_scale: float
    rope: tuple[RopeTable, ...]
    n_ranked: int
    rows: tuple[int, ...]
    n_ctx: int
    token_hash: str
    notes: str = ""
    sliding_window: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for values that no model can have."""
        counts = (self.n_vocab, self.width, self.n_heads, self.n_kv_heads, self.head_dim, self.n_ranked, self.n_ctx)
        _require(min(counts) > 0, "a count is not positive")
        _require(self.n_blocks == len(self.layers) > 0, f"{self.n_blocks} blocks and {len(self.layers)} layers")
        _require(self.n_heads % self.n_kv_heads == 0, f"{self.n_heads} heads over {self.n_kv_heads}")
        _require(self.head_dim % 2 == 0, f"heads of {self.head_dim} dimensions")
        _require(self.n_ranked <= self.n_vocab, f"{self.n_ranked} ranked of {self.n_vocab} tokens")
        _require(0 < len(self.rope) <= 2, f"{len(self.rope)} rope tables")
        for table in self.rope:
            _require(0 < table.n_dims <= self.head_dim and table.base > 0 and table.factor > 0, f"rope table {table}")
        _require(bool(self.rows) and self.rows[0] > 0, f"row counts {self.rows}")
        _require(list(self.rows) == sorted(set(self.rows)), f"row counts {self.rows}")
        _require(self.rows[0] <= self.n_ctx, f"{self.rows[0]} rows in {self.n_ctx} cells")
        _require(self.sliding_window >= 0, f"a window of {self.sliding_window}")

    @property
    def windowed(self) -> bool:
        return self.sliding_window > 0

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> StepFile:
        """Raises ValueError for what is no such text, VersionError for that of another version."""
        raw = json.loads(text)
        if not isinstance(raw, dict):
            raise ValueError("it is no object")
        if raw.get("version") != VERSION:
            raise VersionError(f"version {raw.get('version')!r}")
        names = {field.name for field in fields(cls)}
        missing = sorted(names - {"notes", "sliding_window"} - set(raw))
        _require(not missing, f"it lacks {', '.join(missing)}")
        return cls(
            architecture=_text(raw, "architecture"),
            source_name=_text(raw, "source_name"),
            source_fingerprint=_text(raw, "source_fingerprint"),
            layers=_counts(raw, "layers"),
            n_vocab=_count(raw, "n_vocab"),
            width=_count(raw, "width"),
            n_heads=_count(raw, "n_heads"),
            n_kv_heads=_count(raw, "n_kv_heads"),
            head_dim=_count(raw, "head_dim"),
            n_blocks=_count(raw, "n_blocks"),
            embedding_scale=_real(raw, "embedding_scale"),
            rope=_ropes(raw["rope"]),
            n_ranked=_count(raw, "n_ranked"),
            rows=_counts(raw, "rows"),
            n_ctx=_count(raw, "n_ctx"),
            token_hash=_text(raw, "token_hash"),
            notes=_text({"notes": "", **raw}, "notes"),
            sliding_window=_count({"sliding_window": 0, **raw}, "sliding_window"),
        )


class VersionError(ValueError):
    """Facts of another version."""


@dataclass(frozen=True, slots=True)
class StepFolder:
    """An opened folder. embedding: float16 or float32 [n_vocab, width], mapped, not read. head_ids: int32 ascending,
    the target's id of each row of the head; None for a head of the whole vocabulary.
    """

    path: Path
    file: StepFile
    embedding: FloatRows
    head_ids: npt.NDArray[np.int32] | None

    @property
    def graph(self) -> Path:
        return self.path / GRAPH

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(SUFFIX)

    @property
    def n_bytes(self) -> int:
        return folder_bytes(self.path)


def folder_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir() if file.is_file())


# -- reading ------------------------------------------------------------------------------------------------------


def read_step(path: Path) -> StepFolder:
    """Raises ModelNotFound (no such folder), CorruptModel (a file is missing or damaged, or does not fit the others),
    UnsupportedModel (another version).
    """
    if not path.is_dir():
        why = "it is a file, not the folder of a step model" if path.exists() else "there is no such folder"
        raise ModelNotFound(f"step model {path}", why, "'edgespec export' makes one from a GGUF")
    for name in (FACTS, GRAPH, EMBEDDING):
        if not (path / name).is_file():
            raise CorruptModel(f"step model {path}", f"{name} is missing", AGAIN)
    file = _read_facts(path)
    if not (path / GRAPH).stat().st_size:
        raise CorruptModel(f"step model {path}", f"{GRAPH} is empty", AGAIN)
    return StepFolder(path, file, _read_embedding(path, file), _read_head_ids(path, file))


def _read_facts(path: Path) -> StepFile:
    try:
        return StepFile.from_json((path / FACTS).read_text(encoding="utf-8"))
    except VersionError as error:
        why = f"{FACTS} is of {error}, and this edgespec reads version {VERSION}"
        raise UnsupportedModel(f"step model {path}", why, AGAIN) from None
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptModel(f"step model {path}", f"{FACTS} cannot be used: {error}", AGAIN) from error


def _read_embedding(path: Path, file: StepFile) -> FloatRows:
    array = _load(path, EMBEDDING)
    if array.shape != (file.n_vocab, file.width) or array.dtype not in (np.float16, np.float32):
        why = f"{EMBEDDING} holds {_shape(array)}, and {FACTS} speaks of {file.n_vocab} x {file.width} float16"
        raise CorruptModel(f"step model {path}", why, AGAIN)
    return array


def _read_head_ids(path: Path, file: StepFile) -> npt.NDArray[np.int32] | None:
    if not (path / HEAD_IDS).exists():
        return None
    ids = np.asarray(_load(path, HEAD_IDS))
    if ids.ndim != 1 or ids.dtype != np.int32 or len(ids) < file.n_ranked:
        why = f"{HEAD_IDS} holds {_shape(ids)}, and {file.n_ranked} int32 or more are needed"
        raise CorruptModel(f"step model {path}", why, AGAIN)
    if ids[0] < 0 or ids[-1] >= file.n_vocab or (np.diff(ids) <= 0).any():
        why = f"{HEAD_IDS} does not ascend within 0 to {file.n_vocab - 1}"
        raise CorruptModel(f"step model {path}", why, AGAIN)
    return ids


def _load(path: Path, name: str) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path / name, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CorruptModel(f"step model {path}", f"{name} cannot be used: {error}", AGAIN) from error
    return array


def _shape(array: npt.NDArray[Any]) -> str:
    return f"{' x '.join(map(str, array.shape)) or 'one'} {array.dtype}"


# -- writing ------------------------------------------------------------------------------------------------------


def write_step(path: Path, fill: Callable[[Path], StepFile]) -> StepFile:
    """`fill` writes everything but `step.json` into the folder it is given; `path` appears when all of it is there.

    Raises BadInput (something is there already, or the place cannot be written), DiskFull, and what `fill` raises;
    nothing is left behind then, after Ctrl-C neither.
    """
    if path.exists() or path.is_symlink():
        raise BadInput(f"cannot write {path}", "it exists already", "remove it, or give another --out")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        try:
            file = fill(temporary)
            (temporary / FACTS).write_text(file.to_json(), encoding="utf-8")
            os.chmod(temporary, 0o755)  # mkdtemp's 0700 would hide a shared EDGESPEC_HOME from other users
            os.rename(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise _write_error(path, error) from error
    return file


def _write_error(path: Path, error: OSError) -> Exception:
    why = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFull(f"cannot write {path}", why, "make room, or give an --out on another disk")
    return BadInput(f"cannot write {path}", why, "give another --out")


# -- values of the facts ------------------------------------------------------------------------------------------


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _text(raw: dict[str, object], key: str) -> str:
    value = raw[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} is {value!r}, no text")
    return value


def _count(raw: dict[str, object], key: str) -> int:
    value = raw[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{key} is {value!r}, no whole number")
    return value


def _counts(raw: dict[str, object], key: str) -> tuple[int, ...]:
    value = raw[key]
    if not isinstance(value, list):
        raise ValueError(f"{key} is {value!r}, no list")
    return tuple(_count({key: item}, key) for item in value)


def _real(raw: dict[str, object], key: str) -> float:
    value = raw[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value):
        raise ValueError(f"{key} is {value!r}, no number")
    return float(value)


def _ropes(raw: object) -> tuple[RopeTable, ...]:
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw):
        raise ValueError(f"rope is {raw!r}, no list of tables")
    try:
        return tuple(RopeTable(_real(one, "base"), _count(one, "n_dims"), _real(one, "factor")) for one in raw)
    except KeyError as error:
        raise ValueError(f"a rope table lacks {error}") from None
