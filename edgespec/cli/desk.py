"""`edgespec desk`: the model in a window of its own, for who would rather not type in a terminal."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

import edgespec
from edgespec.cli.options import (
    AnswerFlags,
    ModelFlags,
    answer_options,
    engine_options,
    generate_options,
    model_options,
    with_draft_model,
)
from edgespec.errors import MissingExtra

if TYPE_CHECKING:
    from edgespec.engine import EngineOptions, GenerateOptions

# Of the extra `desk`.
PACKAGE = "PySide6"
INSTALLED, CHECKOUT = "edgespec.apps.desk", "apps.desk"


class Start(Protocol):
    """What the app offers: runs until its window is closed, and returns an exit code."""

    def __call__(
        self, model: str | None, engine: EngineOptions, answers: GenerateOptions | None, offline: bool
    ) -> int: ...


@click.command(short_help="Chat in a window that shows how answers are drafted.")
@click.argument("model", required=False, envvar="EDGESPEC_MODEL")
@answer_options(temperature=0.7, top_p=0.95)
@model_options
@click.pass_context
def desk(ctx: click.Context, model: str | None, answer_flags: AnswerFlags, model_flags: ModelFlags) -> None:
    """Open a window to chat with MODEL: a GGUF file, a name from 'edgespec models', or hf:user/repo[:quant].

    \b
      edgespec desk
      edgespec desk ./model.gguf --temperature 0
    """
    start = app()
    model_flags, answer_flags = with_draft_model(model_flags, answer_flags)
    ctx.exit(start(model, engine_options(model_flags), generate_options(answer_flags), model_flags.offline))


def app() -> Start:
    """The app's own entry, wherever it is. Raises MissingExtra."""
    if importlib.util.find_spec(PACKAGE) is None:
        remedy = "run: pip install 'pyside6-essentials<6.12'"
        raise MissingExtra("cannot open a window", f"{PACKAGE} must be installed", remedy)
    start: Start = import_module(f"{home()}.start").start
    return start


def home() -> str:
    """The app's package: inside edgespec where that is installed, beside it in a source tree."""
    root = Path(edgespec.__file__).parent
    return INSTALLED if (root / "apps" / "desk").is_dir() else CHECKOUT
