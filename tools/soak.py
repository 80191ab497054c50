"""Soaks the server: many clients at once, mixed requests, random disconnects, and nothing left over.

    python tools/soak.py --n 200 --clients 8 --threads 2
    python tools/soak.py --parallel --threads 2
    python tools/soak.py --gap --threads 2 --ctx-size 8192

Without a choice: zero errors, no request open and no sequence lost afterwards, every cell of the cache free for a
prompt that needs them all, memory no higher in the last quarter than in the first; the time to the first text is
printed.
--parallel compares the tokens per second of four requests at once with those of the same four one after another, in
turns A B B A. --gap reads a long prompt while another answer streams, and compares its longest standstill with one
chunk and one round. Exit code 1 says that something was not as it must be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import httpx

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.engine import EngineOptions
from edgespec.errors import EngineFailure
from edgespec.records import write_atomically
from tools import soak_gap, soak_mixed, soak_parallel
from tools.asking import reported
from tools.soak_server import WatchedEngine, open_watched, served


@dataclass(frozen=True, slots=True)
class Settings:
    n: int
    clients: int
    seed: int
    max_tokens: int
    repeats: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Report:
    """lines: for people. figures: for programs. findings: what is not as it must be."""

    lines: list[str]
    figures: dict[str, object]
    findings: list[str]


def mixed(engine: WatchedEngine, settings: Settings) -> Report:
    soaked = soak_mixed.soak(engine, settings.n, settings.clients, settings.seed, settings.max_tokens)
    return Report(soak_mixed.lines(soaked), asdict(soaked), soaked.findings())


def parallel(engine: WatchedEngine, settings: Settings) -> Report:
    with served(engine) as running:
        arms = soak_parallel.measure(running, settings.repeats, settings.max_tokens)
    ratio = soak_parallel.ratio(arms)
    slower = [] if ratio >= 1.0 else ["four requests at once are slower than one after another"]
    return Report(soak_parallel.lines(arms), {"arms": [asdict(arm) for arm in arms], "ratio": ratio}, slower)


def gap(engine: WatchedEngine, settings: Settings) -> Report:
    with served(engine) as running:
        found = soak_gap.measure(running, settings.prompt_tokens)
    return Report(soak_gap.lines(found), asdict(found), found.findings())


WAYS: dict[str, Callable[[WatchedEngine, Settings], Report]] = {"mixed": mixed, "parallel": parallel, "gap": gap}


@click.command()
@click.option("--mixed", "way", flag_value="mixed", default="mixed", help="many clients; what is done without a choice")
@click.option("--parallel", "way", flag_value="parallel", help="four at once against one after another")
@click.option("--gap", "way", flag_value="gap", help="a stream beside a long prompt")
@click.option("--n", default=200, show_default=True, type=click.IntRange(4), help="mixed: requests")
@click.option("--clients", default=8, show_default=True, type=click.IntRange(1), help="mixed: clients at once")
@click.option("--seed", default=1, show_default=True, type=int, help="mixed: of the requests")
@click.option("--max-tokens", default=48, show_default=True, type=click.IntRange(1), help="of an answer at most")
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(1), help="parallel: turns A B B A")
@click.option(
    "--prompt-tokens", default=4000, show_default=True, type=click.IntRange(8), help="gap: of the long prompt"
)
@click.option("--model", help="as for 'edgespec chat'; the starter model when not given")
@click.option("--threads", type=click.IntRange(1), help="of the engine; all cores when not given")
@click.option("--ctx-size", default=4096, show_default=True, type=click.IntRange(64))
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="write the figures here")
def main(
    way: str,
    n: int,
    clients: int,
    seed: int,
    max_tokens: int,
    repeats: int,
    prompt_tokens: int,
    model: str | None,
    threads: int | None,
    ctx_size: int,
    json_path: Path | None,
) -> None:
    """Try the server under load; exit code 1 if it is not as it must be."""
    settings = Settings(n, clients, seed, max_tokens, repeats, prompt_tokens)
    with reported(), closing(open_watched(model, EngineOptions(ctx_size, threads))) as engine:
        try:
            report = WAYS[way](engine, settings)
        except httpx.HTTPError as error:
            raise EngineFailure("the server", f"it did not answer: {error!r}", "report this") from error
    click.echo("\n".join([*report.lines, *report.findings]))
    if json_path is not None:
        write_atomically(json_path, json.dumps({"way": way, **report.figures}, indent=1) + "\n")
    sys.exit(1 if report.findings else 0)


if __name__ == "__main__":
    main()
