"""How the answers of one arm compare with plain ones: paired ratios of time, with what they are certain to.

A pair is one turn's answer of the arm and of plain. The two texts may differ from a tie on, so seconds per token are
compared, with the plain text's length as weight: the time ratio of pairs P is

    R = sum over P of n * s / sum over P of n * s_plain,    s = decode seconds / tokens, n = tokens of the plain answer,

the time that the arm would need for the plain texts over the time that plain needed; where the texts agree it is the
ratio of total times. `speedup` is 1 / R. The interval is the bootstrap's (Efron 1979), 95 %, percentiles: prompts of a
category are drawn anew with all their repeats, since the repeats of a prompt are no independent samples; over several
categories each is drawn for itself. A category with one prompt has no interval. Beside it stand the median and the
quartiles of the pairs' own speed-ups, which a single stalled answer does not move. Pure; clock-free.

The decode seconds leave out the reading of the prompt, which no arm can shorten. The total time ratio has it on both
sides, so that it says what a user waits: its s is everything from asking to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.bench.matches import NO_MATCHES, Matches
from edgespec.bench.runs import Measured

Floats = npt.NDArray[np.float64]

N_RESAMPLES = 4000
_SEED = 1979
_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Pair:
    """Answers to the same prompt in the same turn."""

    arm: Measured
    plain: Measured

    @property
    def seconds(self) -> float:
        """What the arm would need for the plain text."""
        return _length(self.plain) * self.arm.decode_seconds / _length(self.arm)

    @property
    def ratio(self) -> float:
        return self.seconds / self.plain.decode_seconds

    @property
    def total_seconds(self) -> float:
        """And what it took to read the prompt."""
        return self.seconds + self.arm.total_seconds - self.arm.decode_seconds

    @property
    def loops(self) -> bool:
        return self.arm.loops or self.plain.loops


@dataclass(frozen=True, slots=True)
class Interval:
    """95 % of the resamples lie in it."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Figures:
    """One arm over some pairs.

    interval: of the time ratio; None where there is one prompt only. total_time_ratio, total_interval: the same with
    the reading of the prompt. quartiles: 25 %, 50 % and 75 % of the pairs'
    speed-ups. acceptance: of the drafted tokens, None if none were. same_text: the share of pairs with equal token ids.
    first_token_seconds: the median; first_token_ratio: the median of the pairs' ratios to plain. plain_estimate: what
    the engine thought that plain decoding would have taken, over what plain answers took; None where it did not know.
    Above 1 drafting was held to too low a standard. matches: of all answers together.
    """

    n_prompts: int
    n_pairs: int
    n_tokens: int
    tokens_per_second: float
    time_ratio: float
    interval: Interval | None
    total_time_ratio: float
    total_interval: Interval | None
    quartiles: tuple[float, float, float]
    tokens_per_pass: float
    acceptance: float | None
    first_token_seconds: float
    first_token_ratio: float
    same_text: float
    plain_estimate: float | None
    matches: Matches

    @property
    def speedup(self) -> float:
        return 1.0 / self.time_ratio


@dataclass(frozen=True, slots=True)
class Overall:
    """total: of all categories by total time, each drawn for itself. mean_speedup: the mean of the categories'
    speed-ups; its interval, None if no category has two prompts.
    """

    total: Figures
    mean_speedup: float
    mean_interval: Interval | None


# Of a pair, the seconds of the arm and of plain.
SecondsOf = Callable[[Pair], tuple[float, float]]


def pair_up(measured: Iterable[Measured], arm: str, plain: str) -> list[Pair]:
    """Turns that both answered, in the order of the plain answers. With `arm` plain: every answer with itself."""
    answers = list(measured)
    others = {(one.prompt, one.repeat): one for one in answers if one.arm == arm}
    plains = [one for one in answers if one.arm == plain]
    return [Pair(others[one.prompt, one.repeat], one) for one in plains if (one.prompt, one.repeat) in others]


def by_category(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.plain.category, []).append(pair)
    return found


def figures(pairs: Seq[Pair]) -> Figures:
    """Of pairs of one category or of several; there must be one at least."""
    groups = by_category(pairs)
    decoding, whole = _summed(_resampled(groups, _decoding)), _summed(_resampled(groups, _whole))
    varies = any(_n_prompts(group) > 1 for group in groups.values())
    arms = [pair.arm for pair in pairs]
    n_drafted = sum(one.n_drafted for one in arms)
    first, middle, third = np.percentile([1.0 / pair.ratio for pair in pairs], (25, 50, 75))
    n_tokens = sum(one.n_tokens for one in arms)
    return Figures(
        n_prompts=_n_prompts(pairs),
        n_pairs=len(pairs),
        n_tokens=n_tokens,
        tokens_per_second=n_tokens / sum(one.decode_seconds for one in arms),
        time_ratio=sum(pair.seconds for pair in pairs) / sum(pair.plain.decode_seconds for pair in pairs),
        interval=_interval(decoding) if varies else None,
        total_time_ratio=sum(pair.total_seconds for pair in pairs) / sum(pair.plain.total_seconds for pair in pairs),
        total_interval=_interval(whole) if varies else None,
        quartiles=(float(first), float(middle), float(third)),
        tokens_per_pass=n_tokens / max(1, sum(one.passes for one in arms)),
        acceptance=sum(one.n_accepted for one in arms) / n_drafted if n_drafted else None,
        first_token_seconds=float(np.median([one.first_token_seconds for one in arms])),
        first_token_ratio=float(np.median([p.arm.first_token_seconds / p.plain.first_token_seconds for p in pairs])),
        same_text=sum(pair.arm.digest == pair.plain.digest for pair in pairs) / len(pairs),
        plain_estimate=_plain_estimate(pairs),
        matches=sum((one.matches for one in arms), start=NO_MATCHES),
    )


def overall(pairs: Seq[Pair]) -> Overall:
    """Of all categories together; there must be one pair at least."""
    total, groups = figures(pairs), by_category(pairs)
    means = np.mean([plain / times for times, plain in _resampled(groups, _decoding).values()], axis=0)
    speedups = [sum(p.plain.decode_seconds for p in g) / sum(p.seconds for p in g) for g in groups.values()]
    return Overall(total, sum(speedups) / len(speedups), _interval(means) if total.interval else None)


def _decoding(pair: Pair) -> tuple[float, float]:
    """Seconds of the arm and of plain."""
    return pair.seconds, pair.plain.decode_seconds


def _whole(pair: Pair) -> tuple[float, float]:
    return pair.total_seconds, pair.plain.total_seconds


def _summed(resampled: dict[str, tuple[Floats, Floats]]) -> Floats:
    """The time ratio of all categories together, for every resample."""
    arms, plains = zip(*resampled.values(), strict=True)
    return np.asarray(sum(arms) / sum(plains))


def _resampled(groups: dict[str, list[Pair]], seconds_of: SecondsOf) -> dict[str, tuple[Floats, Floats]]:
    """For each category the (arm, plain) seconds of every resample of its prompts."""
    return {category: _resample(category, pairs, seconds_of) for category, pairs in groups.items()}


def _resample(category: str, pairs: Seq[Pair], seconds_of: SecondsOf) -> tuple[Floats, Floats]:
    """Shapes [N_RESAMPLES]. The draws depend on the category's name and size only, so that figures can be repeated."""
    by_prompt: dict[str, tuple[float, float]] = {}
    for pair in pairs:
        arm, plain = by_prompt.get(pair.plain.prompt, (0.0, 0.0))
        arm_seconds, plain_seconds = seconds_of(pair)
        by_prompt[pair.plain.prompt] = arm + arm_seconds, plain + plain_seconds
    sums = np.array(list(by_prompt.values()))
    draws = np.random.default_rng([_SEED, *category.encode()]).integers(len(sums), size=(N_RESAMPLES, len(sums)))
    drawn = sums[draws].sum(axis=1)
    return drawn[:, 0], drawn[:, 1]


def _interval(resampled: Floats) -> Interval:
    low, high = np.percentile(resampled, _PERCENTILES)
    return Interval(float(low), float(high))


def _plain_estimate(pairs: Seq[Pair]) -> float | None:
    known = [pair for pair in pairs if pair.arm.plain_seconds > 0.0 and pair.arm is not pair.plain]
    thought = sum(_length(pair.plain) * pair.arm.plain_seconds / _length(pair.arm) for pair in known)
    return thought / sum(pair.plain.decode_seconds for pair in known) if known else None


def _n_prompts(pairs: Seq[Pair]) -> int:
    return len({pair.plain.prompt for pair in pairs})


def _length(one: Measured) -> int:
    """One at least: a model may end at once, and the pass that found so took its time."""
    return max(1, one.n_tokens)
