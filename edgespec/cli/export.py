"""`edgespec export`: a step model made of a GGUF, to draft on another device, and how near it comes to its model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgespec.cli.paint import choose_look

if TYPE_CHECKING:
    from rich.console import Console

    from edgespec.exporting.job import Exported, Order, Stage
    from edgespec.library.resolve import ResolvedModel

_LAYERS_HELP = "Blocks to keep: all, auto (by acceptance per cost), or a list such as 0-9,12,20-29."
_VOCABULARY_HELP = "Tokens that can be drafted: the N most frequent ones.  [default: all]"
_OUT_HELP = "The folder to write.  [default: in edgespec's data folder, named after the model]"
_VERIFY_HELP = "Compare it with the model on the model's own answers, and time both."
_PROMPTS_HELP = "JSON lines with 'prompt' or 'turns', to choose and compare by."
_WORDS = {
    "answers": "asking the model",
    "slicing": "cutting it into layers",
    "cutting": "choosing layers",
    "reading": "reading weights",
    "writing": "writing",
    "comparing": "comparing",
    "timing": "timing",
}


@click.command(short_help="Make a draft model from a GGUF, for another device.")
@click.argument("model", required=False, envvar="EDGESPEC_MODEL")
@click.option("--to", type=click.Choice(["onnx"]), required=True, expose_value=False, help="What will run it.")
@click.option("--layers", default="all", show_default=True, metavar="all|auto|LIST", help=_LAYERS_HELP)
@click.option("--vocabulary", type=click.IntRange(16), metavar="N", help=_VOCABULARY_HELP)
@click.option("--out", type=click.Path(path_type=Path), metavar="PATH", help=_OUT_HELP)
@click.option("--verify", is_flag=True, help=_VERIFY_HELP)
@click.option("--positions", type=click.IntRange(1), default=2000, show_default=True, help="Tokens to compare at.")
@click.option("--prompts", type=click.Path(path_type=Path), metavar="FILE", help=_PROMPTS_HELP)
@click.option("--offline", is_flag=True, envvar="EDGESPEC_OFFLINE", help="Use no network at all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
def export(
    model: str | None,
    layers: str,
    vocabulary: int | None,
    out: Path | None,
    verify: bool,
    positions: int,
    prompts: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Make a step model of MODEL, a GGUF of the llama, qwen2, qwen3 or gemma3 family.

    It computes what the GGUF computes, on the GGUF's own quantisation grid, and can draft for it, or for a larger model
    of the same vocabulary, on a device of its own. With fewer layers or tokens it is faster and right less often.

    \b
      edgespec export --to onnx --verify
      edgespec export ./model.gguf --to onnx --vocabulary 8192 --out ./small.step
    """
    from edgespec.cli.downloads import ensure_model
    from edgespec.cli.screen import Screen, emit

    screen = Screen(choose_look(None))
    wanted = _layers(layers)
    found = ensure_model(model, offline=offline, console=screen.console)

    from edgespec.exporting import job
    from edgespec.exporting.prompts import prompt_sets

    order = job.Order(
        source=found.path,
        out=out or _default_out(found, layers, vocabulary),
        layers=job.Layers(layers) if wanted is None else wanted,
        n_vocabulary=vocabulary,
        n_positions=positions if verify else 0,
        prompts=prompt_sets(prompts),
    )
    with _bar(screen.console, found.name) as tell:
        exported = job.export(order, screen.notice, tell)
    emit(json.dumps(_fields(exported, order)) + "\n" if as_json else "".join(f"{x}\n" for x in _lines(exported, order)))


def _layers(text: str) -> tuple[int, ...] | None:
    """None for the words. Raises BadInput."""
    from edgespec.exporting.layerlist import parse_layers

    return None if text in ("all", "auto") else parse_layers(text)


def _default_out(found: ResolvedModel, layers: str, vocabulary: int | None) -> Path:
    from edgespec.config import data_dir
    from edgespec.stepfile import SUFFIX

    name = "-".join(
        [
            re.sub(r"[^\w.-]+", "_", found.name).strip("._") or "model",
            *([f"layers_{re.sub(r'[^0-9a-z-]+', '_', layers)}"] if layers != "all" else []),
            *([f"vocabulary_{vocabulary}"] if vocabulary else []),
        ]
    )
    return data_dir() / "steps" / f"{name}{SUFFIX}"


@contextmanager
def _bar(console: Console, name: str) -> Iterator[Callable[[Stage, float], None]]:
    """A bar on stderr that goes when all is done; each stage fills it anew."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("exporting {task.fields[name]}"), BarColumn(), TextColumn("{task.description}"))
    # In a log it would leave an empty line.
    off = not console.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=off) as bar:
        task = bar.add_task("", total=1.0, name=name)
        yield lambda stage, done: bar.update(task, completed=done, description=_WORDS[stage.value])


# -- results ----------------------------------------------------------------------------------------------------


def _fields(exported: Exported, order: Order) -> dict[str, object]:
    """Programs may rely on these keys. What was not measured is null."""
    agreement, seconds, cut = exported.agreement, exported.seconds, exported.cut
    return {
        "path": str(exported.path),
        "bytes": exported.n_bytes,
        "top1_agreement": agreement.top1 if agreement else None,
        "mean_tv": agreement.mean_tv if agreement else None,
        "max_logit_error": agreement.max_logit_error if agreement else None,
        "step_seconds": seconds.step if seconds else None,
        "target_step_seconds": seconds.target if seconds else None,
        "p95_tv": agreement.p95_tv if agreement else None,
        "target_self_agreement": agreement.self_top1 if agreement else None,
        "positions": agreement.n_positions if agreement else None,
        "architecture": exported.file.architecture,
        "layers": list(exported.file.layers),
        "vocabulary": order.n_vocabulary,
        "acceptance": cut.worth.acceptance if cut else None,
    }


def _lines(exported: Exported, order: Order) -> Iterator[str]:
    from edgespec.exporting.layerlist import format_layers

    file = exported.file
    head = f", {order.n_vocabulary:,} of {file.n_vocab:,} tokens" if order.n_vocabulary else ""
    yield f"{exported.path}: {exported.n_bytes / 1e6:.0f} MB, {file.n_blocks} layers{head}"
    if exported.cut:
        worth, kept = exported.cut.worth, format_layers(file.layers)
        yield (
            f"layers {kept}: right in {worth.acceptance:.1%} of the model's tokens, at {worth.cost:.0%} of its weights"
            if exported.cut.n_drafted
            else "every layer is kept: with fewer of them no draft of this model would pay for itself"
        )
    if exported.agreement is None or exported.seconds is None:
        return
    agreement, seconds = exported.agreement, exported.seconds
    yield (
        f"on {agreement.n_positions:,} tokens of the model's own answers: the same first choice on "
        f"{agreement.top1:.1%} (the model with itself, in passes of one row and of many: {agreement.self_top1:.1%}), "
        f"total variation {agreement.mean_tv:.3f} on average and {agreement.p95_tv:.3f} at the 95th percentile, "
        f"logits off by {agreement.max_logit_error:.2f} at most"
    )
    yield (
        f"one token takes {1e3 * seconds.step:.1f} ms, the model itself {1e3 * seconds.target:.1f} ms "
        f"({seconds.step / seconds.target:.2f}x), one thread each"
    )
