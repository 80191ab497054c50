"""The figures of all peers as one terminal table and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.table import Table

from tools.peer_figures import PeerFigures, Spread, View

Section = tuple[View, list[PeerFigures]]


def table(sections: Sequence[Section], baseline: str, auto: str) -> Table:
    """One section for each view, one line for each peer."""
    found = Table(title=f"Greedy answers; ratios of tokens per second with their 95 % interval; plain = {baseline}")
    found.add_column("peer", no_wrap=True)
    for name in ("answers", "tokens", "tok/s decode", "tok/s in all"):
        found.add_column(name, justify="right")
    for name in ("decode / plain", "in all / plain", "mean of categories", f"{auto} / it, decode", "in all", "same"):
        found.add_column(name, justify="right")
    for view, figures in sections:
        found.add_section()
        found.add_row(f"[bold]{view.name}: {len(view.digests)}[/bold]")
        for one in figures:
            found.add_row(*cells(one))
    return found


def cells(one: PeerFigures) -> list[str]:
    spreads = (one.auto_decode, one.auto_total)
    return [
        one.peer,
        str(one.n_answers),
        str(one.n_tokens),
        _number(one.decode_speed, 1),
        _number(one.total_speed, 1),
        _spread(one.decode),
        _spread(one.total),
        _number(one.category_mean, 2),
        *(_number(spread.ratio if spread else None, 2) for spread in spreads),
        "-" if one.same_answers is None else f"{one.same_answers:.0%}",
    ]


def to_data(sections: Iterable[Section]) -> dict[str, object]:
    """By view and peer; a ratio is {ratio, low, high}."""
    return {
        view.name: {
            "prompts": len(view.digests),
            "peers": {one.peer: {**asdict(one), "category_mean": one.category_mean} for one in figures},
        }
        for view, figures in sections
    }


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _spread(one: Spread | None) -> str:
    if one is None:
        return "-"
    if one.low is None or one.high is None:
        return f"{one.ratio:.2f}"
    return f"{one.ratio:.2f} ({one.low:.2f}-{one.high:.2f})"
