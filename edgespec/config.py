"""Where edgespec keeps its things, and the optional configuration file. Flags win over environment, environment over
file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs

from edgespec.errors import BadInput

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Scalar = str | int | float | bool


def data_dir() -> Path:
    """Models. EDGESPEC_HOME moves everything edgespec writes under one folder."""
    return _under("data", platformdirs.user_data_dir("edgespec", appauthor=False))


def cache_dir() -> Path:
    """What can be measured or fetched again."""
    return _under("cache", platformdirs.user_cache_dir("edgespec", appauthor=False))


def config_dir() -> Path:
    return _under("config", platformdirs.user_config_dir("edgespec", appauthor=False))


def _under(part: str, otherwise: str) -> Path:
    home = os.environ.get("EDGESPEC_HOME")
    return Path(home) / part if home else Path(otherwise)


def load_config() -> dict[str, dict[str, Scalar]]:
    """`config.toml`: one table per command, keys as the long options with underscores. {} when there is no file."""
    path = config_dir() / "config.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors on Windows put a mark in front
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"cannot read the configuration {path}", str(error), "mend or remove the file") from error
    return {command: _table(path, command, table) for command, table in raw.items()}


def _table(path: Path, command: str, table: object) -> dict[str, Scalar]:
    if not isinstance(table, dict) or not all(isinstance(v, (str, int, float, bool)) for v in table.values()):
        raise BadInput(f"[{command}] in {path}", "it must be a table of plain values", "see 'edgespec --help'")
    return dict(table)
