"""What a check has found, in counts, in words, and as an object for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from edgespec.check.compare import Comparison, Result
from edgespec.engine import GenerateOptions


@dataclass(frozen=True, slots=True)
class Report:
    """skipped: ids of prompts that do not fit into the context. n_left: prompts not reached when it was interrupted."""

    model: str
    options: GenerateOptions
    comparisons: tuple[Comparison, ...]
    skipped: tuple[str, ...] = ()
    n_left: int = 0

    def count(self, result: Result) -> int:
        return sum(1 for one in self.comparisons if one.result is result)

    @property
    def has_bug(self) -> bool:
        return self.count(Result.BUG) > 0


def to_fields(report: Report) -> dict[str, object]:
    """Programs may rely on these keys."""
    sampling = report.options.sampling
    return {
        "prompts": len(report.comparisons),
        "identical": report.count(Result.IDENTICAL),
        "ties": report.count(Result.TIE),
        "bugs": report.count(Result.BUG),
        "undecided": report.count(Result.UNDECIDED),
        "differences": [_difference(one) for one in report.comparisons if one.difference],
        "skipped": list(report.skipped),
        "left": report.n_left,
        "model": report.model,
        "exact": report.options.exact,
        "draft": report.options.draft.value,
        "max_tokens": report.options.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "comparisons": [_comparison(one) for one in report.comparisons],
    }


def to_lines(report: Report) -> list[str]:
    """One line for each difference, then the counts, then what weakens them."""
    done, n_undecided = report.comparisons, report.count(Result.UNDECIDED)
    lines = [f"prompt {one.id} ({one.category}): {one.difference.line}" for one in done if one.difference]
    lines.append(
        f"{_counted(len(done), 'prompt')}, {_mode(report)}: {report.count(Result.IDENTICAL)} identical, "
        f"{_counted(report.count(Result.TIE), 'tie')}, {_counted(report.count(Result.BUG), 'bug')}"
        + (f", {n_undecided} undecided" if n_undecided else "")
    )
    if n_undecided:
        lines.append(
            "undecided: threads or settings changed during these answers each time, most likely since others took the "
            "cores, so no replay can tell a tie from a bug; check again on an idle machine, or with --threads 1"
        )
    drafted = [one for one in done if one.n_drafted]
    if drafted:
        n_drafted, n_accepted = (sum(getattr(one, name) for one in drafted) for name in ("n_drafted", "n_accepted"))
        lines.append(
            f"drafted in {len(drafted)} of {len(done)} answers: {n_accepted} of {n_drafted} drafted tokens accepted"
        )
    elif done:
        lines.append(
            "nothing was drafted, so this only shows that plain decoding repeats itself; 'edgespec doctor' says why, "
            "and --draft lookup drafts also where nothing was measured"
        )
    if report.skipped:
        lines.append(f"skipped, too long for the context: {', '.join(report.skipped)}; --ctx-size makes room")
    if report.n_left:
        lines.append(f"stopped with {_counted(report.n_left, 'prompt')} left")
    return lines


def _difference(one: Comparison) -> dict[str, object]:
    assert one.difference is not None
    return {"id": one.id, "category": one.category, "verdict": one.result.value, **asdict(one.difference)}


def _comparison(one: Comparison) -> dict[str, object]:
    fields = asdict(one)
    del fields["difference"]
    return {**fields, "result": one.result.value}


def _mode(report: Report) -> str:
    sampling = report.options.sampling
    drawn = "greedy" if sampling.temperature == 0 else f"temperature {sampling.temperature:g}, seed {sampling.seed}"
    return f"{'exact' if report.options.exact else 'fast'}, {drawn}, draft {report.options.draft.value}"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
