"""jinja2's sandbox with the names that published chat templates expect. Knows no messages."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from datetime import datetime
from typing import NoReturn

from jinja2 import Template, TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


def compile_template(source: str, now: Callable[[], datetime]) -> Template:
    """`now` is the clock of `strftime_now`. Raises jinja2.TemplateError, or RecursionError for absurd nesting."""

    def strftime_now(form: str) -> str:
        return now().strftime(form)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment.from_string(source)


def line_of(error: Exception) -> int | None:
    """Line of the template; jinja2 puts it into the traceback of an error that a running template raised."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((frame.lineno for frame in frames if frame.filename == "<template>"), None)


class _Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; for a prompt it means nothing."""

    tags = frozenset(("generation",))  # type: ignore[assignment]

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(value: object, indent: int | None = None) -> str:
    """Not jinja2's own filter, which escapes for HTML: a model should read plain JSON."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)
