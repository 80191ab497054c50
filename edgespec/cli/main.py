"""The `edgespec` command: its subcommands, and how an error leaves: a sentence on stderr and the error's exit code."""

from __future__ import annotations

import io
import os
import sys

import click

from edgespec import __version__
from edgespec.cli.bench import bench
from edgespec.cli.chat import chat
from edgespec.cli.check import check
from edgespec.cli.defaults import checked_defaults
from edgespec.cli.desk import desk
from edgespec.cli.doctor import doctor
from edgespec.cli.export import export
from edgespec.cli.models import models, pull, show
from edgespec.cli.predict import predict
from edgespec.cli.run import INTERRUPTED, run
from edgespec.cli.serve import serve
from edgespec.cli.tune import tune
from edgespec.errors import EdgeSpecError

# What a shell reports for a program that wrote into a pipe which nobody reads.
BROKEN_PIPE = 141

EXIT_CODES = """\b
Exit codes:
   1  anything else              8  wrong checksum
   2  wrong usage                9  no network
   3  no such model             10  disk full
   4  damaged model             11  the inference library failed
   5  unsupported model         12  licence not accepted
   6  too little memory         13  unusable input, file or value
   7  longer than the context   14  something must be installed first
                                15  not measured on this machine yet
                                16  a draft that does not fit the target
                                17  given up
                                18  cut before the asked form was complete
 130  ended by Ctrl-C"""


class Commands(click.Group):
    """A click group in which errors of edgespec, Ctrl-C and a closed pipe end without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except EdgeSpecError as error:
            click.echo(f"Error: {error}", err=True)
            exit_code = error.exit_code
        except (KeyboardInterrupt, click.Abort):
            exit_code = INTERRUPTED
        except BrokenPipeError:
            exit_code = BROKEN_PIPE
        drop_unwritable_output()
        return ctx.exit(exit_code)


@click.group(
    cls=Commands,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "EDGESPEC"},
)
@click.version_option(__version__, prog_name="edgespec")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Local language models that answer faster and say exactly the same.

    Options can also be set by environment variables (EDGESPEC_CTX_SIZE, EDGESPEC_CHAT_TEMPERATURE) and in
    config.toml in edgespec's configuration folder, one table per command.
    """
    ctx.default_map = checked_defaults(cli)


for command in (chat, run, serve, desk, pull, models, show, tune, doctor, check, bench, predict, export):
    cli.add_command(command)


def main() -> None:
    """The entry point."""
    _use_utf8()
    cli(prog_name="edgespec")


def drop_unwritable_output() -> None:
    """Python flushes stdout once more at exit, and would complain again about what could not be written."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except io.UnsupportedOperation:  # no real file, so nothing will be flushed into it
            return


def _use_utf8() -> None:
    """Answers are UTF-8 in a pipe on Windows too; a terminal that lacks a character shows '?', it is never an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8" if sys.platform == "win32" else None, errors="replace")
