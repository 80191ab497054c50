"""What shape an answer must have: a JSON schema, a grammar, or any JSON object. Plain frozen data.

Reads no vocabulary and no model; what a grammar allows is the business of `text.constraint`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

from edgespec.errors import BadInput


class GrammarKind(Enum):
    JSON_SCHEMA = "JSON schema"
    LARK = "grammar"


@dataclass(frozen=True, slots=True)
class Grammar:
    """`text` is a JSON schema, or a grammar in Lark syntax as llguidance reads it. `origin` names it in messages."""

    kind: GrammarKind
    text: str
    origin: str = ""

    @classmethod
    def json_schema(cls, text: str, origin: str = "") -> Grammar:
        """Raises BadInput for what is no JSON object."""
        named = origin or "the JSON schema"
        try:
            schema = json.loads(text)
        except json.JSONDecodeError as error:
            why = f"it is no JSON: {error.msg} in line {error.lineno}, column {error.colno}"
            raise BadInput(named, why, "give a schema as a JSON object") from error
        except RecursionError as error:
            raise BadInput(named, "it is nested too deeply", "give a simpler schema") from error
        if not isinstance(schema, dict):
            raise BadInput(named, f"it is no JSON object but {_kind_of(schema)}", 'begin it with {"type": ...')
        return cls(GrammarKind.JSON_SCHEMA, text, origin)

    @classmethod
    def lark(cls, text: str, origin: str = "") -> Grammar:
        """Raises BadInput for an empty text."""
        if not text.strip():
            raise BadInput(origin or "the grammar", "it is empty", "give at least a rule named 'start'")
        return cls(GrammarKind.LARK, text, origin)

    @classmethod
    def json_object(cls) -> Grammar:
        """Any JSON object."""
        return cls.json_schema('{"type": "object"}')

    @property
    def name(self) -> str:
        return self.origin or f"the {self.kind.value}"


def _kind_of(value: object) -> str:
    names = {bool: "true or false", str: "a text", list: "a list", type(None): "null"}
    return names.get(type(value), "a number")
