"""What the page says of a body, and whether one is so."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs

from edgespec.server.openapi import openapi


@cache
def page() -> dict[str, Any]:
    """As a client gets it."""
    found: dict[str, Any] = json.loads(json.dumps(openapi()))
    return found


def schema_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = page()["components"]["schemas"][name]
    return found


@cache
def validator(name: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator({**page(), "$ref": f"#/components/schemas/{name}"})
