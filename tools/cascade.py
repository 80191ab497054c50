"""Measures a cascade of drafts against its parts: passes of the target per token where each has as long to draft.

    python tools/cascade.py wide.gguf --middle smol.step --small cut.step --prompts prompts.jsonl

First every way of drafting guesses so many tokens before each pass, whatever it takes: no model, the small one, the
middle one, and both together with the model-free one below. What counts is how few passes of the target a way needs for
the time that it drafts. Then edgespec's own policy has the cascade and decides by itself, in turns with plain decoding,
to show that it is used only where it is faster.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.choice import DraftChoice
from edgespec.engine import Engine, EngineOptions, Extras, GenerateOptions
from edgespec.events import Completion
from edgespec.replay import Run
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from tools.asking import Asker, load_questions, read_sizes, reported


@dataclass(frozen=True, slots=True)
class Way:
    """One way of drafting. second: the models that draft, "" for none."""

    name: str
    choice: DraftChoice
    second: str


@dataclass(frozen=True, slots=True)
class Figures:
    """n_nodes: the longest draft. passes_per_token: of the target. draft_seconds: before each pass, the first one of an
    answer excepted, before which a model reads the prompt. same: answers with plain decoding's tokens.
    """

    way: str
    n_nodes: int
    passes_per_token: float
    draft_seconds: float
    accepted: float
    drafted_per_token: float
    n_tokens: int
    same: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """What edgespec's own policy made of it. time_ratio: median of the pairs, to plain decoding."""

    way: str
    time_ratio: float
    least_ratio: float
    largest_ratio: float
    passes_per_token: float
    drafted_per_token: float


def ways(middle: str, small: str) -> tuple[Way, ...]:
    return (
        Way("suffix", DraftChoice.parse("suffix"), ""),
        Way("small", DraftChoice.MODEL, small),
        Way("middle", DraftChoice.MODEL, middle),
        Way("cascade", DraftChoice.parse("cascade"), middle),
        Way("cascade of three", DraftChoice.parse("cascade"), f"{middle},{small}"),
    )


def opened(target: str, second: str, ctx_size: int, policy: FixedPolicy | None) -> Engine:
    return Engine.open(target, EngineOptions(ctx_size, draft_model=second), extras=Extras(policy=policy))


Said = tuple[Run, Completion]


def answers(engine: Engine, questions: Seq[str], options: GenerateOptions) -> list[Said]:
    asker = Asker(engine)
    return [asker.ask(asker.tokens(question), options) for question in questions]


def figures(way: Way, n_nodes: int, found: Seq[Said], plain: Seq[Said]) -> Figures:
    said = [completion for _, completion in found]
    n_tokens = sum(len(one.token_ids) for one in said)
    n_drafted = sum(one.timings.draft_n for one in said)
    later = [one.propose_seconds for run, _ in found for one in run.rounds[1:]]
    return Figures(
        way.name,
        n_nodes,
        sum(one.timings.passes for one in said) / n_tokens,
        mean(later),
        sum(one.timings.draft_n_accepted for one in said) / max(1, n_drafted),
        n_drafted / n_tokens,
        n_tokens,
        sum(one.token_ids == other.token_ids for one, (_, other) in zip(said, plain, strict=True)),
    )


def chosen(way: Way, engine: Engine, questions: Seq[str], options: GenerateOptions, progress: Progress) -> Chosen:
    """Every question plainly and with drafts, in turns whose order is reversed."""
    asker = Asker(engine)
    asked = {
        DraftChoice.OFF: GenerateOptions(options.sampling, options.max_tokens, draft=DraftChoice.OFF),
        way.choice: GenerateOptions(options.sampling, options.max_tokens, draft=way.choice),
    }
    task = progress.add_task(f"{way.name}, own policy", total=len(questions))
    ratios: list[float] = []
    drafted: list[Completion] = []
    for turn, question in enumerate(questions):
        order = list(asked) if turn % 2 == 0 else list(asked)[::-1]
        said = {choice: asker.ask(asker.tokens(question), asked[choice])[1] for choice in order}
        plain, ours = said[DraftChoice.OFF], said[way.choice]
        per_token = [one.timings.decode_seconds / len(one.token_ids) for one in (ours, plain)]
        ratios.append(per_token[0] / per_token[1])
        drafted.append(ours)
        progress.advance(task)
    n_tokens = sum(len(one.token_ids) for one in drafted)
    return Chosen(
        way.name,
        median(ratios),
        min(ratios),
        max(ratios),
        sum(one.timings.passes for one in drafted) / n_tokens,
        sum(one.timings.draft_n for one in drafted) / n_tokens,
    )


def best_part(of: Figures, found: Seq[Figures]) -> Figures | None:
    """What needs the fewest passes of those without a cascade that draft no longer before a pass."""
    parts = [one for one in found if not one.way.startswith("cascade") and one.draft_seconds <= of.draft_seconds]
    return min(parts, key=lambda one: one.passes_per_token, default=None)


def show(found: Seq[Figures], own: Seq[Chosen], console: Console) -> None:
    table = Table(title="what each way makes of its time before a pass of the target")
    columns = (
        "drafts",
        "nodes",
        "ms/pass",
        "passes/token",
        "tokens/pass",
        "accepted",
        "same text",
        "best part in time",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "drafts" else "right")
    for one in found:
        per_pass, same = f"{1 / one.passes_per_token:.2f}", str(one.same)
        part = best_part(one, found) if one.way.startswith("cascade") else None
        beside = f"{part.way} {part.n_nodes}: {part.passes_per_token:.3f}" if part else ""
        times = (f"{one.draft_seconds * 1e3:.0f}", f"{one.passes_per_token:.3f}", per_pass, f"{one.accepted:.0%}")
        table.add_row(one.way, str(one.n_nodes), *times, same, beside)
    console.print(table)
    table = Table(title="edgespec's own policy, time per token against plain decoding in turns with it")
    for column in ("drafts", "time", "from", "to", "passes/token", "drafted/token"):
        table.add_column(column, justify="left" if column == "drafts" else "right")
    for each in own:
        ratios = [f"{ratio:.3f}" for ratio in (each.time_ratio, each.least_ratio, each.largest_ratio)]
        table.add_row(each.way, *ratios, f"{each.passes_per_token:.3f}", f"{each.drafted_per_token:.2f}")
    console.print(table)


@click.command()
@click.argument("target")
@click.option("--middle", required=True, help="the model whose guesses the target verifies: a step model or a GGUF")
@click.option("--small", required=True, help="the model whose guesses the middle one verifies")
@click.option("--prompts", required=True, type=click.Path(path_type=Path))
@click.option("--n-prompts", default=6, show_default=True, type=click.IntRange(1))
@click.option("--max-tokens", default=64, show_default=True, type=click.IntRange(8))
@click.option("--nodes", default="3,7,15", show_default=True, help="lengths of drafts")
@click.option("--ctx-size", default=2048, show_default=True, type=click.IntRange(256))
@click.option("--json", "as_json", is_flag=True)
def main(
    target: str,
    middle: str,
    small: str,
    prompts: Path,
    n_prompts: int,
    max_tokens: int,
    nodes: str,
    ctx_size: int,
    as_json: bool,
) -> None:
    """Measure TARGET with drafts by SMALL and MIDDLE, alone and in a cascade."""
    console = Console(stderr=True)
    found: list[Figures] = []
    own: list[Chosen] = []
    sampling = SamplingSettings(temperature=0.0)
    with reported(), Progress(console=console) as progress:
        sizes = read_sizes("--nodes", nodes)
        questions = [prompt.text for prompt in load_questions(prompts, n_prompts)]
        task = progress.add_task("fixed lengths", total=1 + len(ways(middle, small)) * len(sizes))
        with opened(target, "", ctx_size, None) as engine:
            plain = answers(engine, questions, GenerateOptions(sampling, max_tokens, draft=DraftChoice.OFF))
        progress.advance(task)
        for way in ways(middle, small):
            options = GenerateOptions(sampling, max_tokens, draft=way.choice)
            for n_nodes in sizes:
                with opened(target, way.second, ctx_size, FixedPolicy(max_nodes=n_nodes)) as engine:
                    found.append(figures(way, n_nodes, answers(engine, questions, options), plain))
                progress.advance(task)
        for way in ways(middle, small)[2:]:
            with opened(target, way.second, ctx_size, None) as engine:
                own.append(chosen(way, engine, questions, GenerateOptions(sampling, max_tokens), progress))
    if as_json:
        click.echo(json.dumps({"fixed": [asdict(one) for one in found], "own": [asdict(one) for one in own]}))
    else:
        show(found, own, Console() if sys.stdout.isatty() else Console(width=120))


if __name__ == "__main__":
    main()
