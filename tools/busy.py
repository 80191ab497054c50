"""Measures what busy programs cost: one answer that goes on while others take one core, then two.

    python tools/busy.py --json busy.json

Four answers to the same text, of the same length, in turn: with one thread on an idle machine; with the engine's own
threads on an idle machine; the same while one other process computes without rest from one token to another; and while
two do. The last two are compared with the first two at the same tokens, since later tokens take longer anyway. Full
speed is back with the first token from which on the next ones come within a tenth as fast as on the idle machine.
The other processes must find the machine idle, so run nothing beside it.

With --defaults the same is asked of llama-cpp-python's `Llama`, which keeps its threads whatever others do: a few
tokens only, as one may take seconds.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console

from edgespec.backend import machine
from edgespec.cli.downloads import ensure_model
from edgespec.engine import DraftChoice, Engine, EngineOptions, GenerateOptions
from edgespec.errors import BadInput
from edgespec.events import RoundReport
from edgespec.spec.law import SamplingSettings
from tools.asking import reported
from tools.busy_library import defaults_figures, defaults_table
from tools.busy_processes import busy_processes

# Full speed is judged over so many tokens, and may miss by so much.
N_JUDGED = 32
FULL = 0.9
# The text that is gone on with, over again until it is long enough.
TEXT = "The harbour was quiet before dawn. Two fishermen mended a net by lamplight while the tide turned. "


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens before others become busy, while they are, and afterwards."""

    before: int
    during: int
    after: int

    @property
    def end(self) -> int:
        return self.before + self.during

    @property
    def total(self) -> int:
        return self.end + self.after


@dataclass(frozen=True, slots=True)
class Figures:
    """Tokens per second, and ratios at the same tokens. back_seconds: from the others' end until full speed, None when
    the answer ended before; n_repeats: of which all others are medians.
    """

    n_busy: int
    n_repeats: int
    before: float
    during: float
    after: float
    during_vs_one_thread_alone: float
    during_vs_idle: float
    back_seconds: float | None


class Stamps:
    """The moment of each token, and what is to be done at some of them. A round's tokens share its end."""

    def __init__(self, acts: dict[int, Callable[[], None]]) -> None:
        self.moments: list[float] = []
        self._acts = sorted(acts.items())

    def on_round(self, report: RoundReport) -> None:
        self.moments += [time.perf_counter()] * len(report.tokens)
        while self._acts and len(self.moments) >= self._acts[0][0]:
            self._acts.pop(0)[1]()


def rate(moments: Sequence[float], start: int, end: int) -> float:
    """Tokens per second from token `start` to token `end`, both counted from 1."""
    return (end - start) / max(1e-9, moments[end - 1] - moments[start - 1])


def back_seconds(moments: Sequence[float], idle: Sequence[float], end: int) -> float | None:
    """From token `end`, the others' last one, to the first from which full speed is held; None if there is none."""
    for start in range(end, min(len(moments), len(idle)) - N_JUDGED + 1):
        if rate(moments, start, start + N_JUDGED) >= FULL * rate(idle, start, start + N_JUDGED):
            return moments[start - 1] - moments[end - 1]
    return None


def figures(n_busy: int, found: Sequence[Sequence[Sequence[float]]], span: Span) -> Figures:
    """found: per repeat the moments of one thread alone, of the idle machine, and beside `n_busy` processes."""
    start, end = span.before, span.end
    backs = [back_seconds(busy, idle, end) for _, idle, busy in found]
    known = [back for back in backs if back is not None]

    def median(one: Callable[[Sequence[Sequence[float]]], float]) -> float:
        return statistics.median(map(one, found))

    return Figures(
        n_busy,
        len(found),
        median(lambda runs: rate(runs[2], 1, start)),
        median(lambda runs: rate(runs[2], start, end)),
        median(lambda runs: rate(runs[2], end, span.total)),
        median(lambda runs: rate(runs[2], start, end) / rate(runs[0], start, end)),
        median(lambda runs: rate(runs[2], start, end) / rate(runs[1], start, end)),
        statistics.median(known) if len(known) == len(backs) else None,
    )


def prompt_of(engine: Engine, n_tokens: int) -> list[int]:
    return list(itertools.islice(itertools.cycle(engine.vocab.tokenize(TEXT)), n_tokens))


class Bench:
    """Answers of one length to one text."""

    def __init__(self, n_prompt: int, span: Span, draft: DraftChoice) -> None:
        self._n_prompt = n_prompt
        self._span = span
        self._draft = draft
        self.notices: set[str] = set()

    def run(self, engine: Engine, n_busy: int) -> list[float]:
        """The moments of all tokens. Nothing ends the answer before its length."""
        prompt = prompt_of(engine, self._n_prompt)
        sampling = SamplingSettings(banned=tuple(engine.vocab.end_tokens))
        options = GenerateOptions(sampling, self._span.total, draft=self._draft)
        with busy_processes(n_busy) as busy:
            stamps = Stamps({self._span.before: busy.go, self._span.end: busy.end})
            answer = engine.submit(engine.new_sequence(), False, prompt, options, on_round=stamps.on_round)
            with answer:
                self.notices |= {notice.message for notice in answer.completion().notices}
        return stamps.moments


def table(found: Sequence[Figures]) -> str:
    names = ("before", "during", "after", "vs 1 thread", "vs idle", "back, s")
    lines = [f"{'tokens per second, busy processes':<34}" + "".join(f"{name:>13}" for name in names)]
    for one in found:
        back = "never" if one.back_seconds is None else f"{one.back_seconds:.2f}"
        rates = "".join(f"{value:>13.1f}" for value in (one.before, one.during, one.after))
        ratios = f"{one.during_vs_one_thread_alone:>13.2f}{one.during_vs_idle:>13.2f}"
        lines.append(f"{one.n_busy:<34}{rates}{ratios}{back:>13}")
    return "\n".join(lines)


@click.command()
@click.option("--model", help="as for 'edgespec chat'; the starter model when not given")
@click.option("--threads", type=click.IntRange(2), help="of the engine; what it chooses when not given")
@click.option("--prompt-tokens", default=64, show_default=True, type=click.IntRange(1), help="text before the answer")
@click.option("--before", default=128, show_default=True, type=click.IntRange(2), help="tokens on the idle machine")
@click.option("--during", default=512, show_default=True, type=click.IntRange(2), help="tokens beside busy processes")
@click.option("--after", default=512, show_default=True, type=click.IntRange(N_JUDGED), help="tokens once they ended")
@click.option("--draft", default="off", show_default=True, metavar="NAMES")
@click.option("--repeat", default=3, show_default=True, type=click.IntRange(1))
@click.option("--defaults", "with_defaults", is_flag=True, help="also the library's own Llama")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")
def main(
    model: str | None,
    threads: int | None,
    prompt_tokens: int,
    before: int,
    during: int,
    after: int,
    draft: str,
    repeat: int,
    with_defaults: bool,
    as_json: bool,
) -> None:
    """Measure decoding beside busy processes. Wanted: 0.8 of one thread alone beside one, 0.3 beside two, and full
    speed again within 3 seconds.
    """
    span = Span(before, during, after)
    with reported():
        path = ensure_model(model, offline=False, console=Console(stderr=True)).path
        n_ctx = prompt_tokens + span.total + 64
        with _opened(path, n_ctx, 1) as alone, _opened(path, n_ctx, threads) as engine:
            n_threads = max(engine.settings.n_threads, engine.settings.batch_threads)
            if n_threads == 1:
                raise BadInput("an engine of one thread", "there is nothing to compare", "give --threads 2")
            bench = Bench(prompt_tokens, span, DraftChoice.parse(draft))
            found = _measure(bench, span, alone, engine, repeat)
            prompt = prompt_of(engine, prompt_tokens)
        library = defaults_figures(path, prompt, n_threads) if with_defaults else []
    for message in sorted(bench.notices):
        click.echo(message, err=True)
    if as_json:
        report = {"machine": machine.describe(), "model": path.name, "n_threads": n_threads, **asdict(span)}
        runs, defaults = ([asdict(one) for one in listed] for listed in (found, library))
        click.echo(json.dumps({**report, "runs": runs, "defaults": defaults}))
    else:
        click.echo("\n".join(filter(None, (table(found), defaults_table(library)))))


def _opened(path: Path, n_ctx: int, threads: int | None) -> Engine:
    options = EngineOptions(ctx_size=max(64, n_ctx), threads=threads)
    return Engine.open(path, options, lambda notice: click.echo(notice.message, err=True))


def _measure(bench: Bench, span: Span, alone: Engine, engine: Engine, n_repeats: int) -> list[Figures]:
    runs: list[list[list[float]]] = []
    with click.progressbar(range(n_repeats * 4), label="answers", file=sys.stderr) as left:
        steps = iter(left)
        for _ in range(n_repeats):
            runs.append([])
            for one, n_busy in ((alone, 0), (engine, 0), (engine, 1), (engine, 2)):
                next(steps)
                runs[-1].append(bench.run(one, n_busy))
        next(steps, None)
    return [figures(n_busy, [[one[0], one[1], one[1 + n_busy]] for one in runs], span) for n_busy in (1, 2)]


if __name__ == "__main__":
    main()
