"""`edgespec serve`: the model over HTTP, for programs that speak OpenAI's API; for one alone as its sidecar."""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

import click

from edgespec.cli.options import (
    AnswerFlags,
    ModelFlags,
    answer_options,
    engine_options,
    generate_options,
    model_options,
    template_option,
    with_draft_model,
)
from edgespec.cli.paint import choose_look
from edgespec.errors import MissingExtra

if TYPE_CHECKING:
    from edgespec.cli.screen import Screen
    from edgespec.server.running import Server
    from edgespec.server.sidecar import Handshake

DEFAULT_PORT = 8317
STDIN = 0
# Of the extra `server`.
PACKAGES = ("starlette", "uvicorn")
# What a shell reports for a program ended by SIGTERM.
TERMINATED = 143
HOST_HELP = "Where to listen; any other than this machine's own 127.0.0.1 needs a key."
KEY_HELP = "What clients must send; best given in EDGESPEC_KEY, for others can read a command line."
PARALLEL_HELP = "Answers made at a time, and conversations kept to go on with; each takes its part of --ctx-size."
MOST_HELP = "Answered and waiting at a time; further ones get status 429."
SIDECAR_HELP = (
    "Serve the program that started this one: a free port, one JSON line on stdout when ready, "
    "and the end as soon as standard input closes."
)


@click.command(short_help="Serve a model over HTTP, by OpenAI's API.")
@click.argument("model", required=False, envvar="EDGESPEC_MODEL")
@click.option("--host", default="127.0.0.1", show_default=True, help=HOST_HELP)
@click.option("--port", type=click.IntRange(0, 65535), help=f"0 takes a free one.  [default: {DEFAULT_PORT}]")
@click.option("--key", envvar="EDGESPEC_KEY", help=KEY_HELP)
@click.option("--allow-origin", multiple=True, metavar="ORIGIN", help="Let pages of this origin ask; can be repeated.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="Another name of this server; can be repeated.")
@click.option("--parallel", type=int, default=4, show_default=True, metavar="N", help=PARALLEL_HELP)
@click.option("--max-requests", type=click.IntRange(1), default=20, show_default=True, help=MOST_HELP)
@click.option("--sidecar", is_flag=True, help=SIDECAR_HELP)
@template_option
@answer_options(temperature=1.0, top_p=1.0)
@model_options
def serve(
    model: str | None,
    host: str,
    port: int | None,
    key: str | None,
    allow_origin: tuple[str, ...],
    allow_host: tuple[str, ...],
    parallel: int,
    max_requests: int,
    sidecar: bool,
    template: str | None,
    answer_flags: AnswerFlags,
    model_flags: ModelFlags,
) -> None:
    """Serve MODEL: a GGUF file, a name from 'edgespec models', or hf:user/repo[:quant]; the starter model if none.

    Options about answers hold where a request says nothing else. Ctrl-C ends it.

    \b
      edgespec serve
      edgespec serve ./model.gguf --port 9000
      EDGESPEC_KEY=secret edgespec serve --host 0.0.0.0
    """
    _require_server()
    from edgespec.cli.opening import find_model, load_model
    from edgespec.cli.screen import Screen
    from edgespec.server.access import Access
    from edgespec.server.desk import Limits
    from edgespec.server.running import Serving, listen, make_server
    from edgespec.server.sidecar import Handshake
    from edgespec.server.wire import Defaults

    model_flags, answer_flags = with_draft_model(model_flags, answer_flags)
    options = replace(engine_options(model_flags), parallel=parallel, tune_when_idle=not sidecar)
    drawn = secrets.token_urlsafe(24) if sidecar and not key else ""
    access = Access(host, allow_host, allow_origin, key or drawn)
    defaults = Defaults(generate_options(answer_flags), answer_flags.seed)
    screen = Screen(choose_look(None))
    usual_port = 0 if sidecar else DEFAULT_PORT
    with Ending(screen, sidecar) as ending, listen(host, usual_port if port is None else port) as listening:
        found = find_model(model, model_flags, screen)
        with load_model(found, options, screen).engine as engine:
            handshake = Handshake(host, listening.getsockname()[1], engine.name, drawn)
            server = make_server(
                engine,
                Serving(access, Limits(max_open=max_requests), defaults, template),
                lambda: _announce(handshake, screen, sidecar),
            )
            ending.watch(server)
            server.run(sockets=[listening])


class Ending:
    """SIGTERM, and of a sidecar the end of its parent, end the server as Ctrl-C does: answers are cancelled, the model
    is freed.
    """

    def __init__(self, screen: Screen, sidecar: bool) -> None:
        from edgespec.server.sidecar import Leash

        self._screen = screen
        self._server: Server | None = None
        self._before = signal.signal(signal.SIGTERM, _terminate)
        if sidecar:
            Leash(STDIN, self._let_go, lambda: os._exit(0)).hold()

    def __enter__(self) -> Ending:
        return self

    def __exit__(self, *exc_info: object) -> None:
        signal.signal(signal.SIGTERM, self._before)

    def watch(self, server: Server) -> None:
        self._server = server

    def _let_go(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        self._screen.dim("standard input was closed, or the parent process is gone: ending")


def _announce(handshake: Handshake, screen: Screen, sidecar: bool) -> None:
    from edgespec.cli.screen import emit

    if sidecar:
        emit(handshake.line())
    else:
        screen.line(f"serving {handshake.model} at {handshake.url}/v1")
        screen.line(f"a page to chat with it: {handshake.url}/")


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


def _require_server() -> None:
    """Raises MissingExtra."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        why = f"{' and '.join(missing)} must be installed"
        raise MissingExtra("cannot serve", why, "run: pip install starlette uvicorn")
