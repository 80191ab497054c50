"""A picture of a report: speed-ups by category, with their intervals. matplotlib is loaded when one is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgespec.bench.ratios import Figures
from edgespec.bench.report import Report
from edgespec.errors import BadInput, MissingExtra

_ROW_INCHES = 0.22
_WIDTH_INCHES = 8.0
_DOTS_PER_INCH = 150


@dataclass(frozen=True, slots=True)
class Bar:
    """One speed-up and the ends of its interval, equal to it where there is none."""

    category: str
    arm: str
    speedup: float
    low: float
    high: float


def bars(found: Report) -> list[Bar]:
    """Of every arm but plain, by category, and of all together."""
    groups = {**found.all.by_category, "all": {arm: one.total for arm, one in found.all.overall.items()}}
    return [
        _bar(category, arm, one)
        for category, arms in groups.items()
        for arm, one in arms.items()
        if arm != found.arms[0]
    ]


def _bar(category: str, arm: str, one: Figures) -> Bar:
    """A time ratio's high end is the speed-up's low one."""
    low, high = (1 / one.interval.high, 1 / one.interval.low) if one.interval else (one.speedup, one.speedup)
    return Bar(category, arm, one.speedup, min(low, one.speedup), max(high, one.speedup))


def require_matplotlib() -> None:
    """Raises MissingExtra where it is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingExtra("--plot", "matplotlib is not installed", "run: pip install matplotlib") from error


def require_writable(path: Path) -> None:
    """Raises BadInput where no picture could be written; leaves what is there."""
    existed = path.exists()
    try:
        with path.open("ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"--plot {path}", error.strerror or str(error), "give a file that can be written")


def draw(found: Report, title: str, path: Path) -> None:
    """Write a PNG. Raises MissingExtra, and BadInput for a path that cannot be written."""
    require_matplotlib()
    from matplotlib.figure import Figure

    drawn = bars(found)
    categories = list(dict.fromkeys(bar.category for bar in drawn))
    arms = list(dict.fromkeys(bar.arm for bar in drawn))
    height = 1.6 + _ROW_INCHES * len(categories) * (len(arms) + 1)
    figure = Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
    axes = figure.subplots()
    for index, arm in enumerate(arms):
        mine = [bar for bar in drawn if bar.arm == arm]
        places = [categories.index(bar.category) + (index + 1) / (len(arms) + 1) - 0.5 for bar in mine]
        errors = [[bar.speedup - bar.low for bar in mine], [bar.high - bar.speedup for bar in mine]]
        speedups = [bar.speedup for bar in mine]
        axes.barh(places, speedups, height=0.8 / (len(arms) + 1), xerr=errors, label=arm, capsize=2)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(categories)), categories)
    axes.invert_yaxis()
    axes.set_xlabel("speed-up of decoding over tuned plain decoding in the same run, with 95 % intervals")
    axes.set_title(title, fontsize="small", loc="left", wrap=True)
    if arms:
        figure.legend(loc="outside lower right", ncols=len(arms), fontsize="small")
    try:
        figure.savefig(path, dpi=_DOTS_PER_INCH, format="png")
    except OSError as error:
        raise _unwritable(path, error) from error
