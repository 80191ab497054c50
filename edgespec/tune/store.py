"""Where tunings are kept between runs, and under which key: model, library build, machine, and what the caller forced.

Knows the record's text, not its meaning; measures nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from edgespec.backend import machine
from edgespec.backend.probe import model_fingerprint
from edgespec.backend.settings import KvType
from edgespec.config import cache_dir
from edgespec.records import Records
from edgespec.tune.sheet import Sheet
from edgespec.tune.tuning import Tuning

# Raise when other things are measured: older tunings are then made anew.
VERSION = 2


@dataclass(frozen=True, slots=True)
class Forced:
    """What the caller decides and tuning must keep; None leaves it to measuring. kv_type None is f16: a quantised cache
    changes what the model says, so it is never chosen for its speed.
    """

    threads: int | None = None
    extra_buffers: bool | None = None
    gpu_layers: int | None = None
    kv_type: KvType | None = None


def tuning_records() -> Records:
    return Records(cache_dir() / "tuning.json")


def stored_tuning(path: Path, library: str, forced: Forced, records: Records) -> Tuning | None:
    """What was found earlier for this model, build, machine and wishes; None if nothing was, or it makes no sense."""
    try:
        return Tuning.from_text(records.get(_key("tuning", path, library, forced)) or "")
    except ValueError:
        return None


def save_tuning(path: Path, library: str, forced: Forced, records: Records, tuning: Tuning) -> None:
    records.put(_key("tuning", path, library, forced), tuning.to_text())


def stored_sheet(path: Path, library: str, forced: Forced, records: Records) -> Sheet:
    """The measurements of a tuning that was broken off; an empty sheet if there are none."""
    try:
        return Sheet.from_text(records.get(_key("sheet", path, library, forced)) or "")
    except ValueError:
        return Sheet()


def save_sheet(path: Path, library: str, forced: Forced, records: Records, sheet: Sheet) -> None:
    records.put(_key("sheet", path, library, forced), sheet.to_text())


def forget_sheet(path: Path, library: str, forced: Forced, records: Records) -> None:
    """A finished tuning that is asked for again begins anew."""
    key = _key("sheet", path, library, forced)
    if records.get(key):
        records.put(key, "")


def _key(kind: str, path: Path, library: str, forced: Forced) -> str:
    wishes = json.dumps(asdict(forced), sort_keys=True)
    return "|".join([kind, str(VERSION), model_fingerprint(path), library, machine.describe(), wishes])
