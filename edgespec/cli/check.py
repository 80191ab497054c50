"""`edgespec check`: every prompt answered with drafting and without, and each difference judged."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgespec.cli.options import DRAWN_SEED_BITS, Drafts, ModelFlags, draft_and_model, model_options
from edgespec.cli.paint import choose_look
from edgespec.cli.run import INTERRUPTED

if TYPE_CHECKING:
    from edgespec.bench.prompts import Prompt
    from edgespec.check.compare import Comparison
    from edgespec.check.report import Report
    from edgespec.engine import Engine, GenerateOptions

BUG = 1


@click.command(short_help="Show that drafting changes no answer.")
@click.argument("model", required=False, envvar="EDGESPEC_MODEL")
@click.option("--prompts", type=click.Path(path_type=Path), metavar="FILE", help="JSON lines with 'prompt' or 'turns'.")
@click.option("--per-category", type=click.IntRange(1), metavar="N", help="Prompts of each category at most.")
@click.option("--n", "n_prompts", type=click.IntRange(1), metavar="N", help="Prompts in all at most.")
@click.option("--max-tokens", type=click.IntRange(1), default=128, show_default=True, help="The longest answer.")
@click.option("--exact", is_flag=True, help="Compare exact answers, where no difference is forgiven.")
@click.option("--temperature", type=float, default=0.0, show_default=True, help="How freely tokens are drawn.")
@click.option("--top-p", type=float, default=1.0, show_default=True, help="As for 'edgespec run'.")
@click.option("--seed", type=int, help="Of both answers.  [default: drawn, and shown]")
@click.option("--draft", type=Drafts(), default="auto", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@model_options
@click.pass_context
def check(
    ctx: click.Context,
    model: str | None,
    prompts: Path | None,
    per_category: int | None,
    n_prompts: int | None,
    max_tokens: int,
    exact: bool,
    temperature: float,
    top_p: float,
    seed: int | None,
    draft: str,
    as_json: bool,
    model_flags: ModelFlags,
) -> None:
    """Answer prompts with drafting and without, and compare the tokens.

    At a first difference both tokens are shown, and how close they were. It is a tie if a fresh replay gives both of
    them again by nothing but the widths of its passes, else it is a bug, as is every difference with --exact.
    Where other programs took the cores meanwhile, a difference that no replay explains is called undecided.
    Exit code 1 says that there was a bug. Without --prompts a few built-in ones are asked. '--draft auto' drafts where
    that pays, '--draft lookup' wherever the text repeats itself.
    """
    from edgespec.check.prompts import choose_prompts
    from edgespec.cli.opening import open_model
    from edgespec.cli.screen import Screen, emit
    from edgespec.engine import DraftChoice, Extras, GenerateOptions
    from edgespec.spec.law import SamplingSettings
    from edgespec.spec.policy import FixedPolicy

    sampling = SamplingSettings(
        temperature=temperature, top_p=top_p, seed=secrets.randbits(DRAWN_SEED_BITS) if seed is None else seed
    )
    choice, model_flags = draft_and_model(draft, model_flags)
    if choice is DraftChoice.OFF:
        raise click.UsageError("--draft off leaves nothing to compare.")
    options = GenerateOptions(sampling, max_tokens, exact=exact, draft=choice)
    listed = choose_prompts(prompts, per_category, n_prompts)
    screen = Screen(choose_look(None))
    # Drafts that do not pay show as well as others whether drafting changes an answer.
    extras = Extras(policy=FixedPolicy()) if choice is not DraftChoice.AUTO else None
    with open_model(model, model_flags, screen, extras).engine as engine:
        report = compare_all(engine, listed, options)
    emit(_text(report, as_json))
    if report.has_bug:  # found is found, also when it was interrupted later
        ctx.exit(BUG)
    if report.n_left:
        ctx.exit(INTERRUPTED)


def compare_all(engine: Engine, prompts: Sequence[Prompt], options: GenerateOptions) -> Report:
    """Ctrl-C ends it; what was compared by then is in the report. Raises the engine's errors."""
    from edgespec.check.compare import Comparer
    from edgespec.check.report import Report
    from edgespec.errors import ContextOverflow

    done: list[Comparison] = []
    skipped: list[str] = []
    label = f"{len(prompts)} prompts, each twice"
    with (
        _until_interrupted(),
        Comparer(engine) as comparer,
        click.progressbar(prompts, label=label, file=sys.stderr) as left,
    ):
        for prompt in left:
            try:
                done.append(comparer.compare(prompt, options))
            except ContextOverflow:
                skipped.append(prompt.id)
    n_left = len(prompts) - len(done) - len(skipped)
    return Report(engine.name, options, tuple(done), tuple(skipped), n_left)


@contextmanager
def _until_interrupted() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        click.echo("", err=True)


def _text(report: Report, as_json: bool) -> str:
    from edgespec.check.report import to_fields, to_lines

    return json.dumps(to_fields(report)) + "\n" if as_json else "".join(f"{line}\n" for line in to_lines(report))
