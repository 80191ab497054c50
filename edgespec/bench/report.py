"""What a measurement shows, by category and in all: as JSON for programs and as a table for people."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from edgespec.bench.journal import replays
from edgespec.bench.matches import STARTS, Matches, names
from edgespec.bench.ratios import Figures, Interval, Overall, Pair, by_category, figures, overall, pair_up
from edgespec.bench.runs import Runs
from edgespec.spec.ledger import Replay

Json = float | int | str | bool | None | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class Part:
    """Some answers. by_category, overall: by arm, plain first; arms without an answer are missing."""

    by_category: dict[str, dict[str, Figures]]
    overall: dict[str, Overall]


@dataclass(frozen=True, slots=True)
class Ledgers:
    """One arm's ledgers, replayed: the rounds of all of them, and whether each kept its bound at every moment."""

    replays: tuple[Replay, ...]

    @property
    def kept(self) -> bool:
        return all(one.kept for one in self.replays)

    @property
    def n_rounds(self) -> int:
        return sum(one.n_rounds for one in self.replays)


@dataclass(frozen=True, slots=True)
class Report:
    """without_loops: turns in which neither answer went in circles. is_complete: nothing is left to measure."""

    arms: tuple[str, ...]
    all: Part
    without_loops: Part
    ledgers: dict[str, Ledgers]
    n_foreign: int
    is_complete: bool


def report(runs: Runs, arms: Seq[str], folder: Path, n_foreign: int, is_complete: bool) -> Report:
    """Of what was measured so far; `arms` begins with plain."""
    pairs = {arm: pair_up(runs, arm, arms[0]) for arm in arms}
    # The same turns for every arm, so that plain is what it was in the comparison.
    circles = {(p.plain.prompt, p.plain.repeat) for listed in pairs.values() for p in listed if p.loops}
    straight = {
        arm: [p for p in listed if (p.plain.prompt, p.plain.repeat) not in circles] for arm, listed in pairs.items()
    }
    ledgers = {arm: Ledgers(tuple(found)) for arm, found in replays(folder).items()}
    return Report(tuple(arms), _part(pairs), _part(straight), ledgers, n_foreign, is_complete)


def _part(pairs: dict[str, list[Pair]]) -> Part:
    found: dict[str, dict[str, Figures]] = {}
    for arm, listed in pairs.items():
        for category, group in by_category(listed).items():
            found.setdefault(category, {})[arm] = figures(group)
    return Part(found, {arm: overall(listed) for arm, listed in pairs.items() if listed})


# -- for programs -----------------------------------------------------------------------------------------------------


def as_json(found: Report) -> dict[str, Json]:
    return {
        **part_as_json(found.all),
        "without_loops": part_as_json(found.without_loops),
        "ledger": {arm: _ledgers_as_json(one) for arm, one in found.ledgers.items()},
        "complete": found.is_complete,
        "skipped_lines": found.n_foreign,
    }


def part_as_json(part: Part) -> dict[str, Json]:
    categories: dict[str, Json] = {
        category: {arm: figures_as_json(one) for arm, one in arms.items()}
        for category, arms in part.by_category.items()
    }
    return {"by_category": categories, "overall": {arm: _overall_as_json(one) for arm, one in part.overall.items()}}


def figures_as_json(one: Figures) -> dict[str, Json]:
    """low, high: 95 % of the time ratio, null for a single prompt. tokens_per_second, speedup and time_ratio are of
    decoding; total_time_ratio has the reading of the prompt too. by_match_length: see `bench.matches`.
    """
    low, median, high = one.quartiles
    return {
        "tokens_per_second": one.tokens_per_second,
        "speedup": one.speedup,
        "tokens_per_pass": one.tokens_per_pass,
        "time_ratio": one.time_ratio,
        **_ends("", one.interval),
        "total_time_ratio": one.total_time_ratio,
        **_ends("total_", one.total_interval),
        "median_speedup": median,
        "speedup_quartiles": [low, high],
        "acceptance": one.acceptance,
        "by_match_length": _matches_as_json(one.matches),
        "first_token_seconds": one.first_token_seconds,
        "first_token_ratio": one.first_token_ratio,
        "same_text": one.same_text,
        "plain_estimate": one.plain_estimate,
        "n_tokens": one.n_tokens,
        "n_prompts": one.n_prompts,
        "n_pairs": one.n_pairs,
    }


def _overall_as_json(one: Overall) -> dict[str, Json]:
    mean: dict[str, Json] = {"mean_speedup": one.mean_speedup, **_ends("mean_", one.mean_interval)}
    return {**figures_as_json(one.total), **mean}


def _matches_as_json(one: Matches) -> list[Json]:
    """One object for each bucket, that of `from` match lengths up to the next one's."""
    counts = zip(STARTS, one.n_tried, one.n_right, strict=True)
    return [{"from": start, "n_tried": n_tried, "n_right": n_right} for start, n_tried, n_right in counts]


def _ends(prefix: str, interval: Interval | None) -> dict[str, Json]:
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}


def _ledgers_as_json(one: Ledgers) -> dict[str, Json]:
    return {
        "kept": one.kept,
        "rounds": one.n_rounds,
        "refused": sum(replay.n_refused for replay in one.replays),
        "worst_seconds": max(replay.worst_seconds for replay in one.replays),
        "overshoot_seconds": max(replay.overshoot_seconds for replay in one.replays),
    }


# -- for people -------------------------------------------------------------------------------------------------------

_HEADINGS = (
    *("", "drafts", "tok/s", "speed-up", "time, 95 %", "median", "quartiles"),
    *("total, 95 %", "tok/pass", "accepted", "tokens"),
)
FOOTNOTE = (
    "tok/s, speed-up and time are of decoding, after the prompt is read; total is the ratio of the whole times, from "
    "asking to the end. Time ratios are to plain decoding in the same run: below 1 is faster"
)


def as_table(found: Report) -> Table:
    """A row for each category and arm, then all categories, then all without loops."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="left" if index < 2 else "right", no_wrap=True)
    for category, arms in found.all.by_category.items():
        _add_rows(table, category, arms)
    for title, part in (("all", found.all), ("without loops", found.without_loops)):
        _add_rows(table, title, {arm: one.total for arm, one in part.overall.items()})
        for arm, one in list(part.overall.items())[1:]:
            table.add_row("  mean of categories", arm, "", f"{one.mean_speedup:.2f}x")
        table.add_section()
    return table


def _add_rows(table: Table, title: str, arms: dict[str, Figures]) -> None:
    for index, (arm, one) in enumerate(arms.items()):
        table.add_row(title if index == 0 else "", arm, *_cells(one, is_plain=index == 0))


def _cells(one: Figures, is_plain: bool) -> list[str]:
    low, median, high = one.quartiles
    compared = [f"{one.speedup:.2f}x", _range(one.interval), f"{median:.2f}x", f"{low:.2f}-{high:.2f}"]
    compared.append(f"{one.total_time_ratio:.3f} {_range(one.total_interval)}".rstrip())
    accepted = "" if one.acceptance is None else f"{one.acceptance:.0%}"
    return [
        f"{one.tokens_per_second:.1f}",
        *([""] * len(compared) if is_plain else compared),
        f"{one.tokens_per_pass:.2f}",
        accepted,
        str(one.n_tokens),
    ]


def _range(interval: Interval | None) -> str:
    """Nothing where every category has one prompt only."""
    return "" if interval is None else f"{interval.low:.3f}-{interval.high:.3f}"


def as_match_table(found: Report) -> Table:
    """Acceptance by match length: a row for each arm that drafted, over all answers and over those without loops."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(("accepted, of, by match length", "drafts", *names())):
        table.add_column(heading, justify="left" if index < 2 else "right", no_wrap=True)
    for title, part in (("all", found.all), ("without loops", found.without_loops)):
        drafted = {arm: one.total.matches for arm, one in part.overall.items() if any(one.total.matches.n_tried)}
        for index, (arm, one) in enumerate(drafted.items()):
            counts = zip(one.n_right, one.n_tried, strict=True)
            cells = [f"{right / tried:.0%} {tried}" if tried else "" for right, tried in counts]
            table.add_row(title if index == 0 else "", arm, *cells)
        table.add_section()
    return table


def ledger_lines(found: Report) -> list[str]:
    """One sentence for each arm with a recorded ledger."""
    return [_ledger_line(arm, one) for arm, one in found.ledgers.items()]


def _ledger_line(arm: str, one: Ledgers) -> str:
    refused = sum(replay.n_refused for replay in one.replays)
    worst = 1e3 * max(replay.worst_seconds for replay in one.replays)
    verdict = "kept its bound at every moment" if one.kept else "did NOT keep its bound"
    closest = f"at the closest {abs(worst):.1f} ms {'over' if worst > 0.0 else 'below'} its limit"
    against = f", {refused} of them against the gate" if refused else ""
    return f"ledger of {arm}: {one.n_rounds} rounds replayed{against}, {verdict}, {closest}"
