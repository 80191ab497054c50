"""Typed reading of a TOML or JSON table: every value is checked once, and a bad one is named with its file and key."""

from __future__ import annotations

from collections.abc import Mapping

from edgespec.errors import BadInput


class Table:
    """A table whose keys are taken one by one; `finish` refuses those that nobody asked for."""

    def __init__(self, place: str, entries: Mapping[str, object], remedy: str) -> None:
        self._place = place
        self._entries = dict(entries)
        self._remedy = remedy

    def fail(self, key: str, why: str) -> BadInput:
        return BadInput(f"{self._place}, key '{key}'", why, self._remedy)

    def text(self, key: str, default: str | None = None) -> str:
        value = self._entries.pop(key, default)
        if not isinstance(value, str):
            raise self.fail(key, _expected("a text", value))
        if not value and default is None:
            raise self.fail(key, "it is empty")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        value = self._entries.pop(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.fail(key, _expected("a whole number of 0 or more", value))
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._entries.pop(key, default)
        if not isinstance(value, bool):
            raise self.fail(key, _expected("true or false", value))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._entries.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(key, _expected("a list of texts", value))
        return tuple(value)

    def tables(self, key: str) -> tuple[Table, ...]:
        value = self._entries.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fail(key, _expected("a list of tables", value))
        return tuple(
            Table(f"{self._place}, {key} {number}", item, self._remedy) for number, item in enumerate(value, start=1)
        )

    def table(self, key: str) -> Table | None:
        value = self._entries.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.fail(key, _expected("a table", value))
        return Table(f"{self._place}, {key}", value, self._remedy)

    def finish(self) -> None:
        for key in self._entries:
            raise self.fail(key, "no such key is known here")


def _expected(kind: str, value: object) -> str:
    return f"{kind} is needed, and it is missing" if value is None else f"{kind} is needed, not {value!r}"
