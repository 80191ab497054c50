"""One JSON object of a request, read field by field: each has a type and a name in messages, and null means absent.

Contract: whatever the bytes, the only error is a Refusal that names the field. Knows no field by name.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Mapping

from edgespec.server.refusals import Refusal

_JSON_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list"}


class Fields:
    """`where` is the path of the object in the request: "" for the request itself, else like `messages[2].`."""

    def __init__(self, values: Mapping[str, object], where: str = "") -> None:
        self._values = values
        self._where = where

    @classmethod
    def parse(cls, body: bytes) -> Fields:
        try:
            value = json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:  # a decoding error of UTF-8 is a ValueError too
            why = "it is nested too deeply" if isinstance(error, RecursionError) else f"it is no JSON: {error}"
            raise Refusal("the request's body", why, "send a JSON object", code="invalid_json") from None
        if not isinstance(value, dict):
            raise Refusal("the request's body", f"it is {kind_of(value)}", "send a JSON object", code="invalid_json")
        return cls(value)

    def path(self, name: str) -> str:
        return self._where + name

    def only(self, known: Collection[str]) -> None:
        """Raises Refusal for a field that is not `known`: nothing that a client asks for is silently ignored."""
        for name in self._values:
            if name not in known:
                close = difflib.get_close_matches(name[:80], known, n=1)
                remedy = f"perhaps you mean '{close[0]}'" if close else "leave it out"
                path = _printable(self.path(name))
                raise Refusal(path, "there is no such parameter", remedy, code="unknown_parameter", param=path)

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def value(self, name: str) -> object:
        """As it stands; None if absent."""
        return self._values.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.wrong(name, str)
        return self._sound(name, value)

    def flag(self, name: str, default: bool) -> bool:
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, bool)
        return value

    def whole(self, name: str, default: int) -> int:
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():  # JavaScript knows one kind of number only
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(name, int)
        if abs(value) >= 2**64:  # as wide as a seed; a number of a thousand digits helps nobody in a message
            raise self.refuse(name, "it has more than 64 bits", "give a smaller number")
        return value

    def number(self, name: str, default: float) -> float:
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(name, float)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):  # 1e999 is read as infinity
            raise self.refuse(name, "it is too large", "give a smaller number")
        return number

    def items(self, name: str) -> list[object]:
        """A list; [] if absent."""
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(name, list)
        return list(value)

    def inner(self, name: str) -> Fields:
        """The object in a field; one without fields if absent."""
        value = self._values.get(name)
        if value is None:
            return Fields({}, f"{self.path(name)}.")
        if not isinstance(value, dict):
            raise self.refuse(name, f"it is {kind_of(value)}", "give an object")
        return Fields(value, f"{self.path(name)}.")

    def objects(self, name: str) -> list[Fields]:
        """The objects in a list; [] if absent."""
        found = []
        for i, value in enumerate(self.items(name)):
            if not isinstance(value, dict):
                raise self.refuse(f"{name}[{i}]", f"it is {kind_of(value)}", "give an object")
            found.append(Fields(value, f"{self.path(name)}[{i}]."))
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        """A text, or a list of them; () if absent."""
        value = self._values.get(name)
        values = [value] if isinstance(value, str) else self.items(name)
        for i, one in enumerate(values):
            if not isinstance(one, str):
                raise self.refuse(f"{name}[{i}]", f"it is {kind_of(one)}", "give a text")
        return tuple(self._sound(name, str(one)) for one in values)

    def whole_keyed(self, name: str) -> tuple[tuple[int, float], ...]:
        """An object from numbers in quotes to numbers; () if absent."""
        inner = self.inner(name)
        pairs = []
        for key in inner._values:
            if not key.isascii() or not key.isdecimal() or len(key) > 10:
                raise inner.refuse(_printable(key), "it is no token's number", 'write tokens as in {"50256": -100}')
            pairs.append((int(key), inner.number(key, 0.0)))
        return tuple(pairs)

    def refuse(self, name: str, why: str, remedy: str) -> Refusal:
        return Refusal(self.path(name), why, remedy, code="invalid_value", param=self.path(name))

    def wrong(self, name: str, kind: type) -> Refusal:
        value = self._values.get(name)
        if value is None:
            wanted = f"give {_JSON_NAMES[kind]}"
            return Refusal(
                self.path(name), "it is missing", wanted, code="missing_required_parameter", param=self.path(name)
            )
        return self.refuse(name, f"it is {kind_of(value)}", f"give {_JSON_NAMES[kind]}")

    def _sound(self, name: str, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise self.refuse(name, f"character {error.start} is half of a pair", "send well-formed text") from None
        return text


def kind_of(value: object) -> str:
    if value is None or isinstance(value, dict):
        return "null" if value is None else "an object"
    return _JSON_NAMES[type(value)]


def _printable(name: str) -> str:
    """A name as messages quote it: short, and without half characters."""
    return name[:80].encode(errors="replace").decode()


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not allowed")
