"""Measures what drafting gives when several answers share the engine: aggregate tokens per second, by batch size.

    python tools/batches.py --prompts prompts.jsonl --sizes 1,2,4,8,16,32

Every size answers the same prompts, as many as the largest size, for so many askers, each of whom asks anew as soon as
an answer is complete; plainly and with drafts in an order that turns. All sequences of a batch share one pass and one
budget of rows, so drafts should shrink by themselves as the batch grows. Fewer share a pass while prompts are read and
when no question is left; how many did, is measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.choice import DraftChoice
from edgespec.engine import Engine, EngineOptions, GenerateOptions
from edgespec.errors import BadInput
from edgespec.events import Completion, RoundReport
from tools.asking import Asker, load_questions, read_sizes, reported

# Answers for each asker between two arms. With one, an answer that drafts have made short leaves its place empty, and
# drafting would look slower than it is where others wait for the place; with many, the machine's own speed changes.
_A_FEW = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """n answers at once. speedup: the median of the pairs, between least and largest.
    drafted_per_token: drafted tokens of a sequence per token it emitted. together: sequences that shared a plain pass,
    on average over the tokens it gave.
    """

    n: int
    plain_tokens_per_second: float
    tokens_per_second: float
    speedup: float
    least: float
    largest: float
    drafted_per_token: float
    accepted: float
    together: float


@dataclass(frozen=True, slots=True)
class Run:
    """n_rounds: of each sequence. n_rows: of the passes of these rounds."""

    n_tokens: int
    seconds: float
    n_drafted: int
    n_accepted: int
    n_rounds: int
    n_rows: int

    def __add__(self, later: Run) -> Run:
        return Run(
            self.n_tokens + later.n_tokens,
            self.seconds + later.seconds,
            self.n_drafted + later.n_drafted,
            self.n_accepted + later.n_accepted,
            self.n_rounds + later.n_rounds,
            self.n_rows + later.n_rows,
        )


def ask(asker: Asker, prompts: Seq[list[int]], n: int, options: GenerateOptions) -> Run:
    """From the first question until the last answer is complete, with n askers. Raises the engine's errors."""
    engine = asker.engine
    n_rows: list[int] = []

    def note(report: RoundReport) -> None:
        n_rows.append(report.n_rows)

    def answered(prompt: list[int]) -> Completion:
        return engine.submit(engine.new_sequence(), False, prompt, options, on_round=note).completion()

    with ThreadPoolExecutor(n) as askers:
        began = time.perf_counter()
        done = list(askers.map(answered, prompts))
        seconds = time.perf_counter() - began
    return Run(
        sum(len(one.token_ids) for one in done),
        seconds,
        sum(one.timings.draft_n for one in done),
        sum(one.timings.draft_n_accepted for one in done),
        len(n_rows),
        sum(n_rows),
    )


def ask_in_turns(
    asker: Asker, prompts: Seq[list[int]], n: int, arms: tuple[GenerateOptions, ...], first: int
) -> list[Run]:
    """All prompts with n askers. A few for each of them are asked with every arm before the next few, so that a machine
    whose speed changes within seconds does so for all of them; `first` begins, and the order turns each time. Returns
    one run for each arm. Raises the engine's errors.
    """
    runs = [Run(0, 0.0, 0, 0, 0, 0)] * len(arms)
    for number, start in enumerate(range(0, len(prompts), _A_FEW * n)):
        for i in range(len(arms)):
            arm = (first + number + i) % len(arms)
            runs[arm] += ask(asker, prompts[start : start + _A_FEW * n], n, arms[arm])
    return runs


def measure(
    asker: Asker, prompts: Seq[list[int]], sizes: Seq[int], options: GenerateOptions, repeats: int, progress: Progress
) -> list[Batch]:
    """Of the first prompts, as many as the largest size. Raises the engine's errors."""
    prompts = prompts[: max(sizes)]
    task = progress.add_task("batches", total=repeats * len(sizes))
    plain = GenerateOptions(options.sampling, options.max_tokens, draft=DraftChoice.OFF)
    found: list[Batch] = []
    for n in sizes:
        pairs: list[list[Run]] = []
        for turn in range(repeats):
            pairs.append(ask_in_turns(asker, prompts, n, (plain, options), turn % 2))
            progress.advance(task)
        found.append(_batch(n, [pair[0] for pair in pairs], [pair[1] for pair in pairs]))
    return found


def _batch(n: int, plain: Seq[Run], drafted: Seq[Run]) -> Batch:
    speeds = [median(run.n_tokens / run.seconds for run in runs) for runs in (plain, drafted)]
    pairs = zip(plain, drafted, strict=True)
    ratios = [ours.n_tokens / ours.seconds / (one.n_tokens / one.seconds) for one, ours in pairs]
    n_drafted = sum(run.n_drafted for run in drafted)
    n_tokens = sum(run.n_tokens for run in drafted)
    accepted = sum(run.n_accepted for run in drafted) / n_drafted if n_drafted else 0.0
    spread = (median(ratios), min(ratios), max(ratios))
    together = sum(run.n_rows for run in plain) / sum(run.n_rounds for run in plain)
    return Batch(n, speeds[0], speeds[1], *spread, n_drafted / n_tokens, accepted, together)


def show(found: Seq[Batch], console: Console) -> None:
    table = Table(title="answers at once, reading of prompts included")
    for column in (
        "at once",
        "plain tok/s",
        "drafting tok/s",
        "speed-up",
        "from",
        "to",
        "drafted per token",
        "accepted",
        "together",
    ):
        table.add_column(column, justify="right")
    for one in found:
        table.add_row(
            str(one.n),
            f"{one.plain_tokens_per_second:.1f}",
            f"{one.tokens_per_second:.1f}",
            f"{one.speedup:.3f}x",
            f"{one.least:.3f}",
            f"{one.largest:.3f}",
            f"{one.drafted_per_token:.3f}",
            f"{one.accepted:.0%}",
            f"{one.together:.1f}",
        )
    console.print(table)


@click.command()
@click.option("--model", help="the starter model when not given")
@click.option("--prompts", required=True, type=click.Path(path_type=Path))
@click.option("--sizes", default="1,2,4,8,16,32", show_default=True)
@click.option("--max-tokens", default=64, show_default=True, type=click.IntRange(1))
@click.option("--repeats", default=2, show_default=True, type=click.IntRange(1))
@click.option("--draft", default="auto", show_default=True, metavar="NAMES")
@click.option("--ctx-size", default=16384, show_default=True, type=click.IntRange(256))
@click.option(
    "--longest-prompt", default=200, show_default=True, type=click.IntRange(1), help="tokens; longer are left out"
)
@click.option("--threads", type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
def main(
    model: str | None,
    prompts: Path,
    sizes: str,
    max_tokens: int,
    repeats: int,
    draft: str,
    ctx_size: int,
    longest_prompt: int,
    threads: int | None,
    as_json: bool,
) -> None:
    """Measure batches of answers, plain and drafted."""
    console = Console(stderr=True)
    with reported():
        counts = read_sizes("--sizes", sizes)
        options = GenerateOptions(max_tokens=max_tokens, draft=DraftChoice.parse(draft))
        wanted = EngineOptions(ctx_size, threads, parallel=max(counts))
        with Engine.open(model, wanted) as engine, Progress(console=console) as progress:
            asker = Asker(engine)
            known = [asker.tokens(one.text) for one in load_questions(prompts, 1 << 30)]
            short = [tokens for tokens in known if len(tokens) <= longest_prompt]
            if len(short) < max(counts):
                why = f"it holds {len(short)} prompts of at most {longest_prompt} tokens"
                raise BadInput(f"--sizes {sizes} with {prompts}", why, "give more prompts, or smaller sizes")
            found = measure(asker, short, counts, options, repeats, progress)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found]))
    else:
        show(found, Console())


if __name__ == "__main__":
    main()
