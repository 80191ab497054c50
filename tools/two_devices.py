"""Measures one target with drafts on cores of their own: plain, draft-free, in turn, side by side; predicts each.

    python tools/two_devices.py wide.gguf --draft smol.step --draft smol-cut.step --prompts prompts.jsonl

Every way answers every prompt, in turns whose order is reversed each time; before that all answer some prompts that do
not count, so that policies are as in a chat that has run for a minute. What is predicted comes from passes and steps
timed at the start of the same run and from how often chains of the draft come true on the plain answers of this run, as
a policy believes it that begins with that: it says whether the model of the latencies holds. Where no draft is expected
to pay little is drafted, which tells little of that model: `--size` makes every way draft, and is predicted with what
was measured. What is foreseen takes
that from a few everyday prompts instead, as the engine does when it first meets a draft. Decoding only: both have read
the prompt before.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.bench.prompts import load_prompts
from edgespec.engine.core import Engine
from edgespec.engine.opening import open_model
from edgespec.engine.options import EngineOptions
from edgespec.engine.pair.hosting import end_tokens, host_of
from edgespec.engine.pair.pairing import find_seconds
from edgespec.engine.pair.weighing import MAX_DRAFT
from edgespec.events import Notice
from edgespec.library.card import ModelCard
from tools.asking import load_questions, reported
from tools.two_arms import Way
from tools.two_outcomes import Asked, Outcome, measure


def as_object(found: Outcome) -> dict[str, object]:
    """The keys are kept: programs read them."""
    return {
        **{way.value: speed for way, speed in found.speeds.items()},
        "predicted": {way.value: speed for way, speed in found.predicted.items()},
        "foreseen": {way.value: speed for way, speed in found.foreseen.items()},
        "top1": found.acceptance.top1,
        "survivals": found.acceptance.survivals,
        "ranks": found.acceptance.ranks,
        "n_warm_up": found.n_warm_up,
        "kappa": found.kappa[0],
        "kappa_draft": found.kappa[1],
        "hit_rate": found.hit_rate,
        "chosen": found.chosen.value,
        "why": found.why,
        "accepted": {way.value: share for way, share in found.accepted.items()},
        "tokens_per_pass": {way.value: n for way, n in found.tokens_per_pass.items()},
        "identical": {way.value: n for way, n in found.identical.items()},
        "n_answers": found.n_answers,
        "draft": found.draft,
        "machine": found.machine,
        "reading_seconds": found.reading_seconds,
    }


def show(found: Outcome, console: Console) -> None:
    warm_up = f"after {found.n_warm_up} that do not count"
    table = Table(title=f"{found.draft} drafting, {found.n_answers} answers each {warm_up}, decoding only")
    for column in (
        "way",
        "tok/s",
        "x plain_one",
        "x plain",
        "predicted",
        "off by",
        "foreseen",
        "tok/pass",
        "accepted",
        "same text",
    ):
        table.add_column(column, justify="left" if column == "way" else "right")
    one, plain = found.speeds[Way.PLAIN_ONE], found.speeds[Way.PLAIN]
    for way, speed in found.speeds.items():
        predicted = found.predicted[way]
        table.add_row(
            way.value,
            f"{speed:.2f}",
            f"{speed / one:.2f}",
            f"{speed / plain:.2f}",
            f"{predicted:.2f}",
            f"{predicted / speed - 1:+.0%}",
            f"{found.foreseen[way]:.2f}",
            f"{found.tokens_per_pass[way]:.2f}",
            f"{found.accepted[way]:.0%}",
            f"{found.identical[way]}/{found.n_answers}",
        )
    console.print(table)
    kappa = f"kappa: target {found.kappa[0]:.1%}, draft {found.kappa[1]:.1%}"
    console.print(f"{kappa}; hit rate {found.hit_rate:.0%}; the draft reads a prompt in {found.reading_seconds:.2f} s")
    curve = ", ".join(f"{share:.2f}" for share in found.acceptance.survivals)
    console.print(f"right on the plain answers: {found.acceptance.top1:.0%}; chains survive by depth: {curve}")
    console.print(f"chosen beforehand: {found.chosen.value}")
    for reason in found.why:
        console.print(f"  {reason}")


@click.command()
@click.argument("target")
@click.option("--draft", "drafts", required=True, multiple=True, help="a step model's folder, a GGUF, or a name")
@click.option("--prompts", required=True, type=click.Path(path_type=Path))
@click.option("--n-prompts", default=6, show_default=True, type=click.IntRange(1))
@click.option("--warm-up", default=4, show_default=True, type=click.IntRange(0), help="prompts that do not count")
@click.option("--max-tokens", default=96, show_default=True, type=click.IntRange(16))
@click.option("--repeats", default=1, show_default=True, type=click.IntRange(1))
@click.option("--ctx-size", default=2048, show_default=True, type=click.IntRange(256))
@click.option("--gpu-layers", type=int, help="layers of the target on the GPU, -1 for all")
@click.option(
    "--size", type=click.IntRange(1, MAX_DRAFT), help="tokens to draft in every round, whether it pays or not"
)
@click.option("--draft-device", default="cpu", show_default=True, help="of the drafts; auto for every one there is")
@click.option("--json", "as_json", is_flag=True)
def main(
    target: str,
    drafts: tuple[str, ...],
    prompts: Path,
    n_prompts: int,
    warm_up: int,
    max_tokens: int,
    repeats: int,
    ctx_size: int,
    gpu_layers: int | None,
    size: int | None,
    draft_device: str,
    as_json: bool,
) -> None:
    """Measure TARGET plain, with a draft in turn and with one beside it, and predict each; once for every draft."""
    console = Console(stderr=True)

    def notify(notice: Notice) -> None:
        console.print(notice.message, style="dim")

    with reported():
        load_prompts(prompts)
        options = EngineOptions(ctx_size, gpu_layers=gpu_layers, draft_model="")
        model, tokens = _asked(target, options, prompts, n_prompts + warm_up)
        opened = open_model(model.path, options, notify)
        with closing(opened.target), Progress(console=console) as progress:
            host = host_of(opened, model.card, draft_device)
            n_counted = max(1, len(tokens) - warm_up)
            ends = end_tokens(opened.vocab, model.card)
            asked = Asked(tokens[:n_counted], tokens[n_counted:], max_tokens, repeats, ends, size)
            seconds = [second for draft in drafts for second in find_seconds(draft, host, notify)]
            found = measure(host, opened, seconds, asked, progress)
    if as_json:
        click.echo(json.dumps({**as_object(found[0]), "others": [as_object(one) for one in found[1:]]}))
    else:
        for one in found:
            show(one, Console())


@dataclass(frozen=True, slots=True)
class Model:
    path: Path
    card: ModelCard | None


def _asked(target: str, options: EngineOptions, prompts: Path, n: int) -> tuple[Model, tuple[tuple[int, ...], ...]]:
    """The prompts as the model's chat template puts them; an engine is opened for a moment."""
    from tools.asking import Asker

    with Engine.open(target, options) as engine:
        asker = Asker(engine)
        room = options.ctx_size // 2
        asked = [tokens for one in load_questions(prompts, 4 * n) if len(tokens := asker.tokens(one.text)) <= room]
        return Model(engine.header.path, engine.card), tuple(map(tuple, asked[:n]))


if __name__ == "__main__":
    main()
