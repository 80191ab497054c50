"""Exact laws by enumeration: run a round once for every outcome of its chances, and add up what it emits.

A *round* is any function that draws through a `Chance` and returns the tokens it emits (at least one). Its joint law,
with plain decoding after it up to a horizon, must be the product law of plain decoding alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Path = tuple[int, ...]
Round = Callable[["Chance"], Path]
TokenLawOf = Callable[[Path], Vector]
JointLaw = dict[Path, float]


class Chance:
    """One run's draws: it replays `script`, then takes the first possible outcome and notes the other ones."""

    def __init__(self, script: Path) -> None:
        self.taken: list[int] = []
        self.weight = 1.0
        self.others: list[Path] = []
        self._script = script

    def pick(self, p: Vector) -> int:
        """An index, with probability p[index]."""
        possible = np.flatnonzero(p > 0.0).tolist()
        n = len(self.taken)
        if n < len(self._script):
            outcome = self._script[n]
        else:
            outcome = possible[0]
            self.others += [(*self.taken, other) for other in possible[1:]]
        self.taken.append(outcome)
        self.weight *= float(p[outcome])
        return outcome

    def flip(self, p: float) -> bool:
        """True with probability p."""
        return self.pick(np.array([1.0 - p, p])) == 1


def outcomes(play: Round) -> Iterator[tuple[Path, float]]:
    """(tokens emitted, probability) of every possible run of `play`."""
    waiting: list[Path] = [()]
    while waiting:
        chance = Chance(waiting.pop())
        yield play(chance), chance.weight
        waiting += chance.others


def continued(start: Path, weight: float, plain: TokenLawOf, horizon: int, end: int) -> Iterator[tuple[Path, float]]:
    """Every text of `horizon` tokens, or less if it reaches the end token, that plain decoding makes of `start`."""
    if end in start:
        yield start[: start.index(end) + 1][:horizon], weight
    elif len(start) >= horizon:
        yield start[:horizon], weight
    else:
        for token, p in enumerate(plain(start).tolist()):
            if p > 0.0:
                yield from continued((*start, token), weight * p, plain, horizon, end)


def joint_law(play: Round, plain: TokenLawOf, horizon: int, end: int = -1) -> JointLaw:
    """The law of the text that one round and then plain decoding emit."""
    law: JointLaw = {}
    for tokens, weight in outcomes(play):
        for text, w in continued(tokens, weight, plain, horizon, end):
            law[text] = law.get(text, 0.0) + w
    return law


def deviation(play: Round, plain: TokenLawOf, horizon: int, end: int = -1) -> float:
    """The largest error of a text's probability, against plain decoding from the first token on."""
    law = joint_law(play, plain, horizon, end)
    truth = dict(continued((), 1.0, plain, horizon, end))
    return max(abs(law.get(text, 0.0) - truth.get(text, 0.0)) for text in law.keys() | truth.keys())


def shapes(max_nodes: int, max_depth: int) -> list[list[int]]:
    """The parent lists of all ordered trees, each once, in depth-first order."""
    found: list[list[int]] = []

    def grow(parents: list[int], branch: list[int]) -> None:
        found.append(parents)
        if len(parents) < max_nodes:
            for up in range(len(branch) + 1):
                stem = branch[: len(branch) - up]
                if len(stem) < max_depth:
                    grow([*parents, stem[-1] if stem else -1], [*stem, len(parents)])

    grow([], [])
    return found


def shuffled(parents: Seq[int], rng: np.random.Generator) -> list[int]:
    """The same tree with its nodes in another order, parents still before children."""
    new_of = {-1: -1}
    result: list[int] = []
    while len(result) < len(parents):
        ready = [node for node in range(len(parents)) if node not in new_of and parents[node] in new_of]
        node = int(rng.choice(ready))
        new_of[node] = len(result)
        result.append(new_of[parents[node]])
    return result
