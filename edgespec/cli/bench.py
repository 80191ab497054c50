"""`edgespec bench`: how fast a model answers with each choice of drafts, against plain decoding in the same run."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgespec.cli.options import ModelFlags, engine_options, model_options
from edgespec.cli.paint import choose_look
from edgespec.cli.run import INTERRUPTED
from edgespec.errors import BadInput, EngineFailure

if TYPE_CHECKING:
    from edgespec.bench.journal import Journal
    from edgespec.bench.measure import Progress
    from edgespec.bench.session import Job, Outcome
    from edgespec.cli.screen import Screen

# What a table may take where nobody looks at a terminal, so that its rows stay whole in a pipe.
_PIPE_COLUMNS = 200

_DRAFTS_HELP = "What to compare, with commas; drafters joined with + work together. Plain is always measured."
_MIN_TOKENS_HELP = "Take more prompts of a category until every arm has so many tokens, all repeats together."
_OUT_HELP = "Keep every answer's figures in this folder, and go on from what it holds.  [default: a new one]"
_JOURNAL_HELP = "Keep every entry of the ledgers too, and replay whether they kept their bound."
_BASELINE_HELP = "One more row: llama-cpp-python's own Llama with its defaults, greedy."


@click.command(short_help="Measure answers with drafts against plain decoding.")
@click.argument("model", required=False, envvar="EDGESPEC_MODEL")
@click.option(
    "--prompts", required=True, type=click.Path(path_type=Path), metavar="FILE", help="JSON lines of prompts."
)
@click.option("--per-category", type=click.IntRange(1), default=3, show_default=True, help="Prompts of each category.")
@click.option("--max-tokens", type=click.IntRange(1), default=128, show_default=True, help="The longest answer.")
@click.option("--drafts", default="off,auto", show_default=True, metavar="NAMES", help=_DRAFTS_HELP)
@click.option("--repeat", type=click.IntRange(1), default=2, show_default=True, help="How often each prompt is asked.")
@click.option("--min-tokens", type=click.IntRange(0), default=0, metavar="K", help=_MIN_TOKENS_HELP)
@click.option("--exact", is_flag=True, help="Exact answers, against exact plain ones.")
@click.option("--temperature", type=float, default=0.0, show_default=True, help="How freely tokens are drawn.")
@click.option("--top-p", type=float, default=1.0, show_default=True, help="As for 'edgespec run'.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of every answer.")
@click.option("--baseline", type=click.Choice(["defaults"]), help=_BASELINE_HELP)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help=_OUT_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@click.option("--journal", is_flag=True, help=_JOURNAL_HELP)
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE.png", help="Draw the speed-ups.")
@model_options
@click.pass_context
def bench(
    ctx: click.Context,
    model: str | None,
    prompts: Path,
    per_category: int,
    max_tokens: int,
    drafts: str,
    repeat: int,
    min_tokens: int,
    exact: bool,
    temperature: float,
    top_p: float,
    seed: int,
    baseline: str | None,
    out: Path | None,
    as_json: bool,
    journal: bool,
    plot: Path | None,
    model_flags: ModelFlags,
) -> None:
    """Ask every prompt with each choice of drafts, interleaved, and compare the times with those of plain decoding.

    Each line of FILE is an object with 'category' and 'turns' (the first is asked) or 'prompt'. Speed-ups are of
    decoding and come with the 95 % interval of the paired time ratio; below 1 is faster than plain. 'total' is the
    ratio of the whole times, the reading of the prompt included. Ctrl-C shows what there is so far; the same command
    with --out goes on later.

    \b
      edgespec bench --prompts questions.jsonl --out run1
      edgespec bench ./model.gguf --prompts questions.jsonl --repeat 5 --min-tokens 1000 --json
    """
    from edgespec.bench.arms import draft_choices
    from edgespec.bench.journal import Journal
    from edgespec.bench.plan import Amount
    from edgespec.bench.session import Job
    from edgespec.cli.screen import Screen
    from edgespec.engine import GenerateOptions
    from edgespec.spec.law import SamplingSettings

    if plot is not None:
        from edgespec.bench.plot import require_matplotlib, require_writable

        require_matplotlib()  # said now, not after an hour
        require_writable(plot)
    names = tuple(choice.value for choice in draft_choices([name.strip() for name in drafts.split(",")]))
    sampling = SamplingSettings(temperature=temperature, top_p=top_p, seed=seed)
    amount, options = Amount(per_category, repeat, min_tokens), GenerateOptions(sampling, max_tokens, exact=exact)
    job = Job(prompts, amount, names, options, with_defaults=baseline is not None)
    screen = Screen(choose_look(None))
    outcome = measured(job, model, model_flags, out or _new_folder(), screen, Journal() if journal else None)
    show_outcome(outcome, screen, as_json)
    if plot is not None:
        from edgespec.bench.plot import draw

        draw(outcome.report, outcome.place.line(), plot)
    if not outcome.report.is_complete:
        ctx.exit(INTERRUPTED)


def measured(
    job: Job,
    model: str | None,
    flags: ModelFlags,
    out: Path,
    screen: Screen,
    journal: Journal | None,
) -> Outcome:
    from edgespec.backend.llama.native import library_fingerprint
    from edgespec.bench.place import load_now, place
    from edgespec.bench.prompts import load_prompts
    from edgespec.bench.session import run
    from edgespec.cli.opening import find_model, load_model
    from edgespec.engine import Extras

    load_prompts(job.prompts)  # a file that cannot be used is said before a model is fetched
    found, load_at_start = find_model(model, flags, screen), load_now()
    extras = Extras(drafters=job.drafters, journal=journal.note if journal else None)
    with load_model(found, engine_options(flags), screen, extras).engine as engine, _bar(screen) as on_turn:
        where = place(found.name, library_fingerprint(), engine.settings, load_at_start)
        return run(job, engine, found.card, where, out, screen.notice, on_turn, journal)


def _new_folder() -> Path:
    """Raises BadInput where edgespec's cache cannot be written."""
    from edgespec.config import cache_dir

    parent = cache_dir() / "bench"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=parent))
    except OSError as error:
        raise BadInput(f"{parent}", error.strerror or str(error), "give a folder with --out") from error


@contextmanager
def _bar(screen: Screen) -> Iterator[Callable[[Progress], None]]:
    """On stderr, drawn between answers only: a thread that draws would take time from what is measured."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TextColumn("turns, left"))
    # The speed of the last answers is nearly that of all, so the estimate looks back far.
    with Bar(
        *columns, TimeRemainingColumn(), console=screen.console, auto_refresh=False, speed_estimate_period=3600.0
    ) as bar:
        task = bar.add_task("", total=None)

        def show(progress: Progress) -> None:
            n_kept = progress.n_done - progress.n_measured  # turns found in the folder say nothing about speed
            bar.update(task, completed=progress.n_measured, total=progress.n_in_all - n_kept, refresh=True)

        yield show


def show_outcome(outcome: Outcome, screen: Screen, as_json: bool) -> None:
    """Raises EngineFailure when nothing was measured."""
    from rich.console import Console

    from edgespec.bench.report import FOOTNOTE, as_match_table, as_table, ledger_lines
    from edgespec.bench.report import as_json as report_as_json
    from edgespec.cli.screen import emit

    found, where = outcome.report, outcome.place
    if not found.all.overall:
        raise EngineFailure(
            "nothing was measured", "it was stopped before the first turn was over", "let it run longer"
        )
    if as_json:
        settings = json.loads(where.settings.to_json())
        machine = {**asdict(where), "settings": settings, "load_at_end": outcome.load_at_end, "line": where.line()}
        whole = {**report_as_json(found), "machine": machine, "folder": str(outcome.folder)}
        emit(json.dumps(whole) + "\n")
    else:
        console = Console() if sys.stdout.isatty() else Console(width=_PIPE_COLUMNS)
        console.print(as_table(found))
        if (by_match := as_match_table(found)).row_count:
            console.print(by_match)
        for line in [FOOTNOTE, *ledger_lines(found), f"{where.line()}; load at the end {outcome.load_at_end:.1f}"]:
            console.print(line, soft_wrap=True, highlight=False, markup=False)
    screen.dim(
        f"figures of every answer: {outcome.folder}; the same command with '--out {outcome.folder}' goes on from there"
    )
