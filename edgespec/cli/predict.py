"""`edgespec predict`: what drafting would give, from the measured table and an assumed acceptance. Loads no model."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from edgespec.cli.options import ModelFlags, model_options
from edgespec.errors import BadInput, ModelNotFound, NotMeasured

if TYPE_CHECKING:
    from rich.table import Table

    from edgespec.library.resolve import ResolvedModel
    from edgespec.spec.cost import CostTable
    from edgespec.spec.predict import Forecast

_PIPE_COLUMNS = 200
# The acceptances of the grid: nobody knows one better than to a tenth, but near 1 much changes.
GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)

_WIDTH_HELP = "Rows of a pass: the last token and N - 1 drafted ones."
_CURVE_HELP = "Take the table that 'edgespec tune --json' wrote, for any model and machine."


@dataclass(frozen=True, slots=True)
class Question:
    """draft_seconds: of drafting, per round. acceptance, width: None where only the grid is wanted."""

    acceptance: float | None
    width: int | None
    context: int
    draft_seconds: float


@click.command(short_help="Say what drafting would give, from measured costs.")
@click.argument("model", required=False, envvar="EDGESPEC_MODEL")
@click.option("--acceptance", type=click.FloatRange(0.0, 1.0), metavar="A", help="How often a drafted token is right.")
@click.option("--width", type=click.IntRange(2), metavar="N", help=_WIDTH_HELP)
@click.option("--context", type=click.IntRange(0), default=256, show_default=True, help="Tokens in the context.")
@click.option("--draft-ms", type=click.FloatRange(0.0), default=0.0, help="Milliseconds of drafting per pass.")
@click.option("--table", "with_table", is_flag=True, help="The speed-ups at every acceptance and measured width.")
@click.option("--curve", type=click.Path(path_type=Path), metavar="FILE", help=_CURVE_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@model_options
def predict(
    model: str | None,
    acceptance: float | None,
    width: int | None,
    context: int,
    draft_ms: float,
    with_table: bool,
    curve: Path | None,
    as_json: bool,
    model_flags: ModelFlags,
) -> None:
    """Tokens per pass, speed-up and break-even acceptance of drafting N - 1 tokens that are right with chance A each.

    The costs are those that 'edgespec tune' measured for MODEL on this machine. Beside them stand two textbook
    formulas, which assume other costs.

    \b
      edgespec predict --acceptance 0.7 --width 4
      edgespec predict ./model.gguf --table --context 1024
    """
    if not with_table and (acceptance is None or width is None):
        raise click.UsageError("Give --acceptance and --width, or --table.")
    if (acceptance is None) != (width is None):
        raise click.UsageError("--acceptance and --width belong together.")
    question = Question(acceptance, width, context, draft_ms / 1e3)
    name, table = _from_file(curve, context) if curve else _stored(model, model_flags, context)
    found = answer(table, question)

    from edgespec.cli.screen import emit

    if as_json:
        emit(
            json.dumps({**_fields(table, found, question), **(_grid_fields(table, question) if with_table else {})})
            + "\n"
        )
        return
    _print(name, table, question, found, with_table)


def priced_width(table: CostTable, width: int) -> int:
    """The measured width whose cost stands for passes of `width` rows: itself or the next one above."""
    return next(measured for measured in table.widths if measured >= width)


def answer(table: CostTable, question: Question) -> Forecast | None:
    """None where only the grid is wanted. Raises BadInput for a width that was not measured."""
    from edgespec.spec.predict import forecast

    if question.acceptance is None or question.width is None:
        return None
    if question.width > table.widest:
        raise BadInput(
            f"--width {question.width}",
            f"passes of up to {table.widest} rows were measured",
            f"give a width of 2 to {table.widest}" if table.widest > 1 else "run 'edgespec tune' with more time",
        )
    return forecast(table, question.context, question.acceptance, question.width - 1, question.draft_seconds)


# -- where the table comes from ---------------------------------------------------------------------------------------


def _stored(model: str | None, flags: ModelFlags, context: int) -> tuple[str, CostTable]:
    """The tuning of a model that is on this machine, for texts of so many tokens. Raises NotMeasured."""
    from edgespec.backend.llama.native import library_fingerprint
    from edgespec.cli.options import engine_options
    from edgespec.engine.choosing import known_tuning
    from edgespec.tune.store import tuning_records

    options = engine_options(flags)
    found = _installed(model)
    tuning = known_tuning(found.path, library_fingerprint(), options, tuning_records())
    if tuning is None:
        why = "it was not measured on this machine yet"
        raise NotMeasured(f"what passes of {found.name} cost", why, f"run '{_tune_command(model, flags)}'")
    return found.name, tuning.for_length(context).table


def _tune_command(model: str | None, flags: ModelFlags) -> str:
    """With the flags that make it another measurement."""
    numbers = (("--threads", flags.threads), ("--gpu-layers", flags.gpu_layers))
    given = [f"{name} {value}" for name, value in numbers if value is not None]
    return " ".join(["edgespec tune", *([model] if model else []), *given])


def _installed(model: str | None) -> ResolvedModel:
    """Nothing is fetched: what is not here was not measured here. Raises ModelNotFound and what `resolve` raises."""
    from edgespec.library import resolve as models
    from edgespec.library.resolve import ResolvedModel

    library = models.open_library()
    card = models.find_card(model, library) if model is not None else models.require_default(library)
    if card is None:
        return models.resolve_other(str(model), library, _not_here)
    path = models.installed_path(card, library)
    return ResolvedModel(path or _not_here(card.id), card, card.id)


def _not_here(wanted: object) -> Path:
    raise ModelNotFound(f"model {wanted}", "it is not on this machine yet", f"'edgespec pull {wanted}' fetches it")


def _from_file(path: Path, context: int) -> tuple[str, CostTable]:
    """The table in the JSON of `edgespec tune --json`, for texts of so many tokens. Raises BadInput."""
    from edgespec.cli.inputs import read_text

    try:
        raw = json.loads(read_text(path, "--curve"))
        choices = raw.get("choices") or [{"up_to": math.inf, "curves": {"0": raw["curve"]}}]
        choice = next((one for one in choices if context <= one["up_to"]), choices[-1])
        return str(raw.get("model", path.name)), _read_table(choice["curves"], bool(raw.get("partial", False)))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"it holds no curve ({error!r})"
        raise BadInput(f"--curve {path}", why, "give what 'edgespec tune --json' wrote") from error


def _read_table(curves: dict[str, dict[str, float]], is_partial: bool) -> CostTable:
    """From seconds by context and width, as texts. Raises ValueError where they make no table."""
    from edgespec.spec.cost import CostTable

    contexts = sorted(curves, key=int)
    widths = sorted(curves[contexts[0]], key=int)
    seconds = tuple(tuple(float(curves[context][width]) for width in widths) for context in contexts)
    return CostTable(tuple(map(int, contexts)), tuple(map(int, widths)), seconds, is_partial)


# -- for programs -----------------------------------------------------------------------------------------------------


def _fields(table: CostTable, found: Forecast | None, question: Question) -> dict[str, object]:
    """An acceptance that even a perfect drafter misses is null. priced_rows: the measured width whose cost is taken."""
    if found is None or question.width is None:
        return {}
    return {
        "priced_rows": priced_width(table, question.width),
        "tokens_per_pass": found.tokens_per_pass,
        "speedup": found.speedup,
        "break_even_acceptance": _finite(found.break_even_acceptance),
        "textbook_speedup": found.textbook_speedup,
        "leviathan_speedup": found.leviathan_speedup,
        "acceptance": question.acceptance,
        "rows": question.width,
        "n_drafted": question.width - 1,
        "context": question.context,
    }


def _grid_fields(table: CostTable, question: Question) -> dict[str, object]:
    rows = _grid(table, question)
    return {
        "table": {
            "acceptances": list(GRID),
            "widths": list(table.widths[1:]),
            "speedups": [[one.speedup for one in row] for row in rows],
            "break_even_acceptances": [_finite(one.break_even_acceptance) for one in rows[0]],
        }
    }


def _grid(table: CostTable, question: Question) -> list[list[Forecast]]:
    """A row for each acceptance of GRID, in it one for each measured width but 1."""
    from edgespec.spec.predict import forecast

    drafted = [width - 1 for width in table.widths[1:]]
    return [[forecast(table, question.context, a, n, question.draft_seconds) for n in drafted] for a in GRID]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# -- for people -------------------------------------------------------------------------------------------------------


def _print(name: str, table: CostTable, question: Question, found: Forecast | None, with_table: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_PIPE_COLUMNS)
    if found is not None:
        console.print(_heading(name, table, question), markup=False)
        console.print(_lines(table, question, found))
    if found is not None and with_table:
        console.print()
    if with_table:
        partial = ", measured in part only" if table.is_partial else ""
        console.print(f"{name}: speed-up at {question.context} tokens of context{partial}", markup=False)
        console.print(_grid_table(table, question))


def _heading(name: str, table: CostTable, question: Question) -> str:
    steps, width = table.steps(question.context), question.width or 1
    drafting = f" and {1e3 * question.draft_seconds:.1f} ms of drafting" if question.draft_seconds else ""
    priced = priced_width(table, width)
    stands_for = "" if priced == width else f" (not measured: as long as one of {priced} rows)"
    return (
        f"{name}: {width - 1} drafted tokens, each right with chance {question.acceptance:.2f} if those before it are; "
        f"a pass of {width} rows takes {1e3 * steps[width]:.1f} ms{stands_for}{drafting}, "
        f"of one row {1e3 * steps[1]:.1f} ms "
        f"(at {question.context} tokens of context)"
    )


def _lines(table: CostTable, question: Question, found: Forecast) -> Table:
    from rich.table import Table

    from edgespec.spec.predict import slope

    needed = found.break_even_acceptance
    rows = (
        ("tokens per pass", f"{found.tokens_per_pass:.2f}", "1 + A + A^2 + ... : with the target's own token"),
        ("speed-up", f"{found.speedup:.2f}x", "tokens per pass over cost, both in plain passes; measured"),
        ("break-even acceptance", _percent(needed), "from this A on it is faster than plain decoding"),
        (
            "textbook, linear",
            f"{found.textbook_speedup:.2f}x",
            f"E[accepted] / (T_draft/T_decode + 1 + alpha n), alpha = {slope(table, question.context):.3f} per drafted "
            "token; leaves out the target's own token",
        ),
        (
            "textbook, Leviathan",
            f"{found.leviathan_speedup:.2f}x",
            "(1 - A^(n+1)) / ((1 - A)(n c + 1)); takes a pass of any width to cost one row",
        ),
    )
    lines = Table(box=None, pad_edge=False, show_header=False)
    lines.add_column()
    lines.add_column(justify="right")
    lines.add_column(style="dim", overflow="fold")
    for title, value, formula in rows:
        lines.add_row(title, value, Text(formula))
    return lines


def _grid_table(table: CostTable, question: Question) -> Table:
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("acceptance")
    for width in table.widths[1:]:
        grid.add_column(f"{width} rows", justify="right")
    rows = _grid(table, question)
    for acceptance, row in zip(GRID, rows, strict=True):
        grid.add_row(f"{acceptance:.2f}", *(f"{one.speedup:.2f}" for one in row))
    grid.add_row("break-even", *(_percent(one.break_even_acceptance) for one in rows[0]), style="bold")
    return grid


def _percent(needed: float) -> str:
    return "never" if math.isinf(needed) else f"{needed:.0%}"
