"""`edgespec chat`: a conversation in the terminal, or one read from a pipe line by line."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from edgespec.cli.options import (
    AnswerFlags,
    ModelFlags,
    answer_options,
    color_option,
    engine_options,
    generate_options,
    model_options,
    template_option,
    with_draft_model,
)
from edgespec.cli.paint import choose_look

if TYPE_CHECKING:
    from edgespec.cli.prompt import MessageSource
    from edgespec.cli.session import Session


@click.command(short_help="Talk with a model.")
@click.argument("model", required=False, envvar="EDGESPEC_MODEL")
@click.option("--system", help="A system prompt.")
@template_option
@color_option
@answer_options(temperature=0.7, top_p=0.95)
@model_options
def chat(
    model: str | None,
    system: str | None,
    template: str | None,
    color: bool | None,
    answer_flags: AnswerFlags,
    model_flags: ModelFlags,
) -> None:
    """Talk with MODEL: a GGUF file, a name from 'edgespec models', or hf:user/repo[:quant]; the starter model if none.

    /help lists the commands. Ctrl-C stops an answer, Ctrl-D leaves. When standard input is a pipe, every line of it is
    a message or a command.
    """
    model_flags, answer_flags = with_draft_model(model_flags, answer_flags)
    options = generate_options(answer_flags)

    from edgespec.cli.commands import suggestions
    from edgespec.cli.keyboard import Keyboard
    from edgespec.cli.opening import OpenedModel, find_model, load_model
    from edgespec.cli.prompt import message_source
    from edgespec.cli.screen import Screen
    from edgespec.cli.session import Session
    from edgespec.config import data_dir

    usual = replace(engine_options(model_flags), tune_when_idle=sys.stdin.isatty())
    screen, keyboard = Screen(choose_look(color)), Keyboard()

    def open_other(name: str) -> OpenedModel:
        with keyboard.asking():
            found = find_model(name, model_flags, screen)
        return load_model(found, usual, screen)

    found = find_model(model, model_flags, screen)
    with keyboard.holding_keys():
        opened = load_model(found, usual, screen)
        with opened.engine:  # closed again by the session, which may have another one by then
            session = Session(opened, opened.engine.conversation(system or "", template), options, screen, open_other)
            session.explain_template(template)
            with closing(session):
                talk(session, message_source(suggestions, data_dir() / "history"))


def talk(session: Session, source: MessageSource) -> None:
    """Read and answer until the source ends or says /exit."""
    from edgespec.cli.commands import LeaveChat

    if source.interactive:
        _greet(session)
    try:
        while (text := _read(session, source)) is not None:
            if text.strip():
                _answer(session, source, text)
    except LeaveChat:
        return


def _read(session: Session, source: MessageSource) -> str | None:
    """The next message. Ctrl-C at a terminal only clears the line."""
    while True:
        try:
            return source.read()
        except KeyboardInterrupt:
            if not source.interactive:
                raise
            session.screen.dim("Ctrl-D or /exit leaves, /help lists the commands")


def _answer(session: Session, source: MessageSource, text: str) -> None:
    """One message or command. Errors are said and the session goes on. Ctrl-C stops what runs, in a pipe all of it."""
    from edgespec.cli.commands import is_command, perform
    from edgespec.errors import EdgeSpecError

    try:
        if is_command(text):
            perform(session, text)
        elif session.ask(text).finish.value == "cancelled" and not source.interactive:
            raise KeyboardInterrupt
    except EdgeSpecError as error:
        session.screen.error(error)
    except KeyboardInterrupt:
        if not source.interactive:
            raise
        session.screen.dim("stopped")


def _greet(session: Session) -> None:
    from edgespec.cli.settings import summary

    header, settings = session.model.engine.header, session.model.engine.settings
    threads = "1 thread" if settings.n_threads == 1 else f"{settings.n_threads} threads"
    facts = [session.model.name, header.quantisation, f"context {settings.n_ctx}", threads]
    session.screen.line(" · ".join(fact for fact in facts if fact))
    exact = " · exact" if session.options.exact else ""
    chosen = f"{summary(session.options.sampling)} · draft {session.options.draft.value}{exact}"
    session.screen.dim(f"{chosen} · /help lists the commands, Ctrl-D leaves")
