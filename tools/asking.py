"""Chat questions from a Spec-Bench file, asked of an engine with every round recorded. Used by the measuring tools.

Contract: every question is a conversation of its own in the model's chat template, so nothing is cached between two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path

import click

from edgespec.bench.asking import Asking
from edgespec.bench.prompts import Prompt, load_prompts
from edgespec.engine import Engine, GenerateOptions
from edgespec.errors import BadInput, EdgeSpecError
from edgespec.events import Completion, RoundReport
from edgespec.replay import Run

INTERRUPTED = 130


def load_questions(path: Path, n: int) -> list[Prompt]:
    """The first `n`, taken in turn from every category. Raises BadInput for a file that is not lines of prompts."""
    in_turn = chain.from_iterable(zip_longest(*load_prompts(path).values()))
    return [prompt for prompt in in_turn if prompt is not None][:n]


def read_sizes(option: str, text: str) -> list[int]:
    """Counts with commas between them. Raises BadInput."""
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise BadInput(f"{option} {text}", "these are no counts", "give some, such as 1,2,4,8")
    return sizes


class Asker:
    """One engine, asked as `edgespec bench` asks it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._asking = Asking(engine, engine.card)

    def tokens(self, question: str) -> list[int]:
        return self._asking.tokens(Prompt("", "", question))

    def ask(self, prompt: list[int], options: GenerateOptions) -> tuple[Run, Completion]:
        """Wait for the answer; its rounds are in the run. Raises the engine's errors. Ctrl-C stops the wait."""
        rounds: list[RoundReport] = []
        options = replace(options, stop=(*options.stop, *self._asking.stops))
        answer = self.engine.submit(self.engine.new_sequence(), False, prompt, options, on_round=rounds.append)
        with answer:
            completion = answer.completion()
        return Run(tuple(prompt), tuple(rounds), completion.token_ids), completion


@contextmanager
def reported() -> Iterator[None]:
    """An error of the engine becomes its sentence on stderr and its exit code; Ctrl-C becomes 130."""
    try:
        yield
    except EdgeSpecError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("stopped", err=True)
        sys.exit(INTERRUPTED)
