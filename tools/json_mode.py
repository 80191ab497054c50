"""Measures JSON answers: whether all are valid, the same with drafting as without, and how many passes they take.

    python tools/json_mode.py --threads 1

Ten schemas, each asked with a number of topics, plainly and with drafts, in turns whose order is reversed. Every answer
is checked against its shape by this tool itself, not by the library that kept the model to it. The token that ends an
answer counts as one, since a pass went for it. Seconds are of decoding only.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.choice import DraftChoice
from edgespec.engine import Engine, EngineOptions, Extras, GenerateOptions, Grammar
from edgespec.events import Completion, Finish
from edgespec.replay import Run
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from tools.asking import Asker, reported
from tools.json_cases import CASES, TOPICS, Case

# The small models that are measured otherwise talk about the object instead of writing it.
_INSTRUCTION = "Answer with JSON only. "
# What a table may take where nobody looks at a terminal, so that its rows stay whole in a pipe.
_PIPE_COLUMNS = 140


@dataclass(frozen=True, slots=True)
class Said:
    """One answer. accepted: accepted tokens by drafter."""

    token_ids: tuple[int, ...]
    n_emitted: int
    n_passes: int
    seconds: float
    is_valid: bool
    is_cut: bool
    accepted: dict[str, int]


@dataclass(frozen=True, slots=True)
class Pair:
    plain: Said
    drafted: Said


@dataclass(frozen=True, slots=True)
class Arm:
    """What the answers of one way to decode came to. n_cut: that were as long as they may be, and broken off."""

    n_valid: int
    n_cut: int
    n_tokens: int
    passes_per_token: float
    seconds_per_token: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one schema, or of all. accepted: accepted tokens by drafter."""

    schema: str
    n_objects: int
    n_same_tokens: int
    plain: Arm
    drafted: Arm
    accepted: dict[str, int]

    @property
    def all_valid(self) -> bool:
        return self.plain.n_valid == self.drafted.n_valid == self.n_objects

    @property
    def all_same(self) -> bool:
        return self.n_same_tokens == self.n_objects


def ask(asker: Asker, case: Case, topic: str, options: GenerateOptions) -> Said:
    """Raises the engine's errors."""
    prompt = asker.tokens(_INSTRUCTION + case.question.format(topic))
    run, completion = asker.ask(prompt, options)
    return Said(
        completion.token_ids,
        _n_emitted(completion),
        completion.timings.passes,
        completion.timings.decode_seconds,
        case.is_valid(completion.text),
        completion.finish is Finish.LENGTH,
        _accepted(run),
    )


def _n_emitted(completion: Completion) -> int:
    return len(completion.token_ids) + (completion.finish is Finish.STOP)


def _accepted(run: Run) -> dict[str, int]:
    return dict(Counter(source for report in run.rounds for source in report.sources if source))


def measure(
    asker: Asker, cases: Seq[Case], topics: Seq[str], options: GenerateOptions, progress: Progress
) -> dict[str, list[Pair]]:
    """By schema. The n-th topic has the seed n, also where nothing is drawn."""
    task = progress.add_task("objects", total=len(cases) * len(topics))
    found: dict[str, list[Pair]] = {}
    for case in cases:
        shaped = replace(options, grammar=Grammar.json_schema(json.dumps(case.shape.schema()), case.name))
        for number, topic in enumerate(topics):
            seeded = replace(shaped, sampling=replace(shaped.sampling, seed=number))
            found.setdefault(case.name, []).append(_pair(asker, case, topic, seeded, number % 2 == 1))
            progress.advance(task)
    return found


def _pair(asker: Asker, case: Case, topic: str, options: GenerateOptions, drafted_first: bool) -> Pair:
    plain = replace(options, draft=DraftChoice.OFF)
    order = (options, plain) if drafted_first else (plain, options)
    first, second = (ask(asker, case, topic, one) for one in order)
    return Pair(second, first) if drafted_first else Pair(first, second)


def figures(name: str, pairs: Seq[Pair]) -> Figures:
    accepted = sum((Counter(pair.drafted.accepted) for pair in pairs), Counter[str]())
    return Figures(
        name,
        len(pairs),
        sum(pair.plain.token_ids == pair.drafted.token_ids for pair in pairs),
        _arm([pair.plain for pair in pairs]),
        _arm([pair.drafted for pair in pairs]),
        dict(accepted),
    )


def _arm(said: Seq[Said]) -> Arm:
    n_tokens = sum(one.n_emitted for one in said)
    return Arm(
        sum(one.is_valid for one in said),
        sum(one.is_cut for one in said),
        n_tokens,
        sum(one.n_passes for one in said) / n_tokens,
        sum(one.seconds for one in said) / n_tokens,
    )


def summary(found: dict[str, list[Pair]]) -> list[Figures]:
    """Each schema, then all together."""
    every = [pair for pairs in found.values() for pair in pairs]
    return [*(figures(name, pairs) for name, pairs in found.items()), figures("all", every)]


def table(found: Iterable[Figures]) -> Table:
    shown = Table(title="JSON objects; passes of the target per token, and time against plain decoding")
    for column in ("schema", "objects", "valid", "same", "cut", "tokens", "plain", "drafted", "time", "accepted"):
        shown.add_column(column, justify="left" if column in ("schema", "accepted") else "right")
    for one in found:
        shown.add_row(
            one.schema,
            str(one.n_objects),
            f"{one.plain.n_valid}/{one.drafted.n_valid}",
            str(one.n_same_tokens),
            str(one.drafted.n_cut),
            str(one.drafted.n_tokens),
            f"{one.plain.passes_per_token:.3f}",
            f"{one.drafted.passes_per_token:.3f}",
            f"{one.drafted.seconds_per_token / one.plain.seconds_per_token:.3f}",
            ", ".join(f"{name} {n}" for name, n in sorted(one.accepted.items())),
        )
    return shown


@click.command()
@click.option("--model", help="the starter model when not given")
@click.option("--prompts", "n_prompts", default=len(TOPICS), show_default=True, type=click.IntRange(1, len(TOPICS)))
@click.option("--schemas", "n_schemas", default=len(CASES), show_default=True, type=click.IntRange(1, len(CASES)))
@click.option("--max-tokens", default=800, show_default=True, type=click.IntRange(1))
@click.option("--temperature", default=0.0, show_default=True, type=click.FloatRange(0.0))
@click.option("--draft", default="auto", show_default=True, metavar="NAMES")
@click.option("--fast", is_flag=True, help="not exact: near-ties may then give other tokens")
@click.option("--fixed", is_flag=True, help="draft a fixed number of tokens: for a model that was not tuned here")
@click.option("--forced-only", is_flag=True, help="only what the schema forces is drafted")
@click.option("--ctx-size", default=2048, show_default=True, type=click.IntRange(64))
@click.option("--threads", type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
def main(
    model: str | None,
    n_prompts: int,
    n_schemas: int,
    max_tokens: int,
    temperature: float,
    draft: str,
    fast: bool,
    fixed: bool,
    forced_only: bool,
    ctx_size: int,
    threads: int | None,
    as_json: bool,
) -> None:
    """Measure JSON answers; exit code 1 if one is not valid, or exact ones differ from plain ones."""
    console = Console(stderr=True)
    with reported():
        sampling = SamplingSettings(temperature=temperature)
        options = GenerateOptions(sampling, max_tokens, exact=not fast, draft=DraftChoice.parse(draft))
        settings = EngineOptions(ctx_size, threads)
        own = Extras(policy=FixedPolicy() if fixed else None, drafters=() if forced_only else None)
        with Engine.open(model, settings, extras=own) as engine, Progress(console=console) as progress:
            if engine.tuning is None and not fixed:
                console.print("not tuned here, so 'auto' drafts nothing: 'edgespec tune' first, or give --fixed")
            pairs = measure(Asker(engine), CASES[:n_schemas], TOPICS[:n_prompts], options, progress)
    found = summary(pairs)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found]))
    else:
        (Console() if sys.stdout.isatty() else Console(width=_PIPE_COLUMNS)).print(table(found))
    total = found[-1]
    sys.exit(0 if total.all_valid and (fast or total.all_same) else 1)


if __name__ == "__main__":
    main()
