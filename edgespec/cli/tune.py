"""`edgespec tune`: measures a model's settings on this machine, shows what was found, and keeps it for every later
start.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from edgespec.cli.downloads import ensure_model
from edgespec.cli.paint import choose_look
from edgespec.cli.pairs import PairFound, Wished, measure_pairs, show_pair
from edgespec.cli.screen import Screen, emit
from edgespec.cli.tune_json import as_json as in_json
from edgespec.errors import BadInput, EngineFailure
from edgespec.events import Notice

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgespec.backend.settings import LlamaSettings
    from edgespec.tune.search import Progress
    from edgespec.tune.store import Forced
    from edgespec.tune.tuning import Tuning

# Of tables where nobody looks at a terminal, so that lines in a pipe stay whole.
PIPE_COLUMNS = 200
STOPPED = "Stopped. What was measured undisturbed is kept, and the same command goes on from there."
STOPPED_TOO_SOON = "Stopped. Nothing was measured that could be kept."
PAIR_NOT_MEASURED = Notice(
    "pair-not-measured",
    "the second model was not measured, since nothing would be kept: do it when the machine is idle",
)
KV_TYPES = ("f16", "q8_0", "q4_0")


@dataclass(frozen=True, slots=True)
class Found:
    """What a tuning brought, and what was said about it. stored: the file it is kept in, "" if it is not. pairs: second
    models that were measured beside it.
    """

    model: str
    forced: Forced
    tuning: Tuning
    notices: tuple[Notice, ...]
    stored: str
    pairs: tuple[PairFound, ...] = ()


@click.command(short_help="Measure a model's settings on this machine, and keep the best.")
@click.argument("model", required=False, envvar="EDGESPEC_MODEL")
@click.option("--threads", type=int, envvar="EDGESPEC_THREADS", help="Keep to this many threads.")
@click.option("--no-extra-buffers", is_flag=True, help="Try nothing with weight repacking or AMX.")
@click.option("--gpu-layers", type=int, envvar="EDGESPEC_GPU_LAYERS", help="Keep to this many layers on the GPU.")
@click.option("--kv-type", type=click.Choice(KV_TYPES), help="Type of the KV cache; others than f16 change answers.")
@click.option(
    "--draft-model",
    metavar="MODEL",
    envvar="EDGESPEC_DRAFT_MODEL",
    help="Measure this second model beside it, too; 'none' for none.  [default: known ones that are on disk]",
)
@click.option(
    "--draft-device",
    default="auto",
    show_default=True,
    metavar="DEVICE",
    envvar="EDGESPEC_DRAFT_DEVICE",
    help="Measure it on this device only: cpu, gpu, or an ONNX Runtime provider.",
)
@click.option(
    "--cap",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Search no longer than this; comparing widths for exact answers comes on top, a minute at most.",
)
@click.option("--offline", is_flag=True, envvar="EDGESPEC_OFFLINE", help="Use no network at all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def tune(
    model: str | None,
    threads: int | None,
    no_extra_buffers: bool,
    gpu_layers: int | None,
    kv_type: str | None,
    draft_model: str | None,
    draft_device: str,
    cap: float,
    offline: bool,
    as_json: bool,
) -> None:
    """Measure which settings run MODEL fastest on this machine, and what passes of each width cost with them.

    Each setting is tried in a process of its own. The result is kept, only for programs that open the engine with the
    same wishes: the same --threads and --gpu-layers, or none. No extra buffers can be asked for in Python alone,
    and a --kv-type nowhere: it shows what there is to gain.

    A second model that drafts is measured beside MODEL: what its steps cost, how often it is right, and so where it is
    expected to pay.

    Measure while the machine is otherwise idle: what is measured beside busy programs is shown and not kept. After
    Ctrl-C the same command goes on from what was kept.
    """
    forced = _forced(threads, no_extra_buffers, gpu_layers, kv_type)
    if kv_type and draft_model not in (None, "none"):
        why = "no answer is made with such a cache, so nothing drafts beside it"
        raise BadInput(f"--kv-type {kv_type} with --draft-model {draft_model}", why, "leave one of them out")
    if not 1.0 <= cap < math.inf:
        raise BadInput(f"--cap {cap:g}", "nothing can be measured in less than a second", "give a number of seconds")
    screen = Screen(choose_look(None))
    second = Wished("none" if kv_type else draft_model, draft_device)
    found = _measure(model, forced, second, cap, offline, screen)
    for notice in found.notices:
        screen.notice(notice)
    if as_json:
        emit(json.dumps(in_json(found), indent=2) + "\n")
    else:
        _show(found)


def _forced(threads: int | None, no_extra_buffers: bool, gpu_layers: int | None, kv_type: str | None) -> Forced:
    """Raises BadInput for numbers that no model can run with."""
    from edgespec.backend.settings import KvType
    from edgespec.engine.options import EngineOptions
    from edgespec.tune.store import Forced

    EngineOptions(threads=threads, gpu_layers=gpu_layers)
    return Forced(threads, False if no_extra_buffers else None, gpu_layers, KvType(kv_type) if kv_type else None)


def _measure(model: str | None, forced: Forced, second: Wished, cap: float, offline: bool, screen: Screen) -> Found:
    resolved = ensure_model(model, offline=offline, console=screen.console)

    from edgespec.backend.llama.native import library_fingerprint
    from edgespec.tune.store import stored_sheet, stored_tuning, tuning_records
    from edgespec.tune.tuner import tune as measure

    library = library_fingerprint()
    notices: list[Notice] = []
    try:
        with _bar(screen.console, resolved.name) as on_progress:
            tuning = measure(resolved.path, library, forced, on_progress, lambda: False, cap, notices.append)
    except KeyboardInterrupt:
        sheet = stored_sheet(resolved.path, library, forced, tuning_records())
        screen.dim(STOPPED if sheet.contexts else STOPPED_TOO_SOON)
        raise
    if tuning is None:
        why = notices[-1].message if notices else "it was stopped"
        raise EngineFailure(f"cannot tune {resolved.name}", why, "give it more time with --cap")
    records = tuning_records()
    kept = stored_tuning(resolved.path, library, forced, records) == tuning
    pairs: tuple[PairFound, ...] = ()
    if kept and second.model != "none":
        pairs = measure_pairs(resolved, forced, second, screen.console, notices)
    elif second.model not in (None, "none"):
        notices.append(PAIR_NOT_MEASURED)
    return Found(resolved.name, forced, tuning, tuple(notices), str(records.path) if kept else "", pairs)


@contextmanager
def _bar(console: Console, name: str) -> Iterator[Callable[[Progress], None]]:
    """A bar on stderr that goes when the measuring is over."""
    columns = (TextColumn("measuring {task.fields[name]}"), BarColumn(), TextColumn("{task.description}"))
    with Bar(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, name=name)
        yield lambda now: bar.update(task, completed=now.done, description=now.doing)


# -- as text ----------------------------------------------------------------------------------------------------


def _show(found: Found) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    tuning = found.tuning
    console.print(Text(f"{found.model}: milliseconds for one token, by tokens of context"))
    console.print(_candidates(tuning))
    for number in range(len(tuning.choices)):
        console.print()
        console.print(Text(_chosen(tuning, number)))
        console.print(_curve(tuning, number))
    for pair in found.pairs:
        console.print()
        show_pair(pair, found.model, console)
    console.print()
    for line in _closing(found):
        console.print(Text(line), soft_wrap=True)


def _candidates(tuning: Tuning) -> Table:
    from edgespec.tune.words import in_words

    table = _columns("SETTINGS", *(f"{context:,}" for context in tuning.contexts), "X DEFAULTS", "")
    usual = next((one.plain_seconds for one in tuning.candidates if one.settings == tuning.defaults), ())
    for one in sorted(tuning.candidates, key=lambda one: one.plain_seconds[:1] or (math.inf,)):
        times = [_milliseconds(seconds) for seconds in one.plain_seconds]
        ratios = [f"{before / now:.2f}" for before, now in zip(usual, one.plain_seconds, strict=False)]
        blank = [""] * (len(tuning.contexts) - len(times))
        table.add_row(
            in_words(one.settings), *times, *blank, " / ".join(ratios), _remark(tuning, one.settings, one.fate)
        )
    return table


def _remark(tuning: Tuning, settings: LlamaSettings, fate: str) -> str:
    said = [fate] if fate else []
    if settings == tuning.defaults:
        said.append("the library's defaults")
    said += [_reach(tuning, i) for i, one in enumerate(tuning.choices) if _same(one.tuned.settings, settings)]
    if settings.kv_type.value != "f16" and not any(one.tuned.settings.kv_type.value != "f16" for one in tuning.choices):
        said.append("changes answers: only with --kv-type")
    return ", ".join(said)


def _same(chosen: LlamaSettings, candidate: LlamaSettings) -> bool:
    """Chunks are chosen last, so candidates do not have them."""
    from dataclasses import replace

    return replace(chosen, prefill_chunk=candidate.prefill_chunk) == candidate


def _reach(tuning: Tuning, number: int) -> str:
    if len(tuning.choices) == 1:
        return "chosen"
    if number + 1 < len(tuning.choices):
        return f"chosen up to {tuning.choices[number].up_to:,} tokens"
    return f"chosen above {tuning.choices[number - 1].up_to:,} tokens"


def _chosen(tuning: Tuning, number: int) -> str:
    from edgespec.tune.words import in_words

    settings = tuning.choices[number].tuned.settings
    reach = _reach(tuning, number)
    return (
        f"{reach[0].upper()}{reach[1:]}: {in_words(settings)}, prompts read {settings.prefill_chunk} tokens at a time"
    )


def _curve(tuning: Tuning, number: int) -> Table:
    """Cost by rows, and the acceptance above which a chain of that many rows pays, at the contexts it is chosen for."""
    from edgespec.spec.predict import break_even

    cost = tuning.choices[number].tuned.table
    contexts = _contexts_of(tuning, number)
    heads = [head for context in contexts for head in (f"MS AT {context:,}", "X ONE ROW", "PAYS ABOVE")]
    table = _columns("ROWS", *heads)
    curves = [cost.at(context) for context in contexts]
    for i, width in enumerate(cost.widths):
        cells: list[str] = []
        for curve in curves:
            ratio = curve[i] / curve[0]
            needed = break_even(ratio, width - 1) if width > 1 else math.nan
            cells += [_milliseconds(curve[i]), f"{ratio:.2f}", _acceptance(needed)]
        table.add_row(str(width), *cells)
    return table


def _contexts_of(tuning: Tuning, number: int) -> list[int]:
    tuned = tuning.choices[number].tuned
    return [one for one in tuning.contexts if tuning.for_length(one) is tuned] or [tuning.contexts[-1]]


def _acceptance(needed: float) -> str:
    if math.isnan(needed):
        return ""
    return "never" if math.isinf(needed) else f"{needed:.0%}"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.{1 if seconds < 0.1 else 0}f}"


def _columns(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    return table


def _closing(found: Found) -> Iterator[str]:
    from edgespec.tune.words import users

    tuning = found.tuning
    if tuning.plain_speedup_over_defaults:
        yield f"One token at a time, {tuning.plain_speedup_over_defaults:.2f} times as fast as the library's defaults."
    if tuning.width_class:
        widths = ", ".join(map(str, tuning.width_class))
        alone = tuning.width_class == (1,)
        yield (
            "--exact takes one row a pass here, so exact answers are never drafted."
            if alone
            else (f"--exact keeps to passes of {widths} rows.")
        )
    if tuning.is_partial:
        again = "goes on from here" if found.stored else "begins anew"
        yield f"The time cap cut it short: only measured widths are drafted at. The same command {again}."
    if found.stored:
        yield f"Kept in {found.stored}. {users(found.forced)}"
