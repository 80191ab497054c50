"""How far a drafter's guesses can be trusted, learned from what the target said.

A drafter claims a survival for each node. What counts is the claim for one step, survival over the parent's survival,
and whether the token, once its parent was accepted, was right: behind the first wrong token nothing is known. Steps are
counted by drafter, depth and bucket of the claim (for a look-up, its bucket of match lengths; for a model, its
confidence), discounted, and shrunk to coarser counts where they are few:

    cell (depth, bucket) -> bucket, made to rise with the claim by isotonic regression -> claim * trust in this drafter

A text that disappoints is believed less than others: its steps are also scaled down by what came true in it over what
was expected. It is never believed more, since a few lucky steps would then make long chains look certain.

Calibrated survival is the product of the steps, so it never rises from parent to child. Every proposal is scored
against the committed text whether or not it was verified. Contract: planning only, never correctness; knows no costs.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt

from edgespec.spec.ports import SequenceId
from edgespec.spec.tree import DraftTree

# One observation counts so much less with each that follows: some fifty decide, and five of the fast count.
_SLOW = 0.98
_FAST = 0.8

# A coarser estimate is worth this many observations: fewer, and the cells' own noise costs more than it tells.
_WEIGHT = 16.0

# The fast count rules when it is this many standard errors away: late alarms cost more than false ones.
_ALARM = 1.5

# Claims of one step that share a bucket begin here; high ones are told apart finely, since long chains live on them.
_EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.95)
_N_BUCKETS = len(_EDGES)
_MIDDLES = [(low + high) / 2 for low, high in zip(_EDGES, (*_EDGES[1:], 1.0), strict=True)]
_BUCKET = [max(i for i, edge in enumerate(_EDGES) if edge <= claim / 100 + 1e-9) for claim in range(101)]

# Depths told apart are 1, 2, 3, 4-5 and the rest: a chain's later steps differ little, and are seldom reached.
_N_DEPTHS = 5
_DEPTH = (0, 1, 2, 3, 3, *[4] * 251)

# Proposals followed at a time. Answers that are broken off leave theirs behind, which must not pile up.
_MOST_FOLLOWED = 64

# Below this survival no node is ever worth its row, and the rest of its branch is not worth looking at.
_HOPELESS = 0.01

# One text's own record: its steps count so much less with each that follows, and the general record is worth so many.
_TALLY_KEPT = 0.97
_TALLY_WEIGHT = 2.5

_UNKNOWN = (-1.0,) * _N_DEPTHS

# Observations between two isotonic fits.
_REFIT = 16

# A new drafter is believed by this factor, worth this many steps: enough to be tried, too little to bet much on.
_TRUST = 0.75
_TRUST_STEPS = 3.0

# Before anything is known of a drafter's steps: this share, worth so many observations.
_ROOT = (0.6, 4.0)


class Rate:
    """A share of successes counted at two speeds. The slow one is used until the fast one contradicts it."""

    __slots__ = ("_fast", "_fast_n", "n", "successes")

    def __init__(self) -> None:
        self.successes = self.n = self._fast = self._fast_n = 0.0

    def observe(self, success: bool) -> None:
        self.successes = self.successes * _SLOW + success
        self.n = self.n * _SLOW + 1.0
        self._fast = self._fast * _FAST + success
        self._fast_n = self._fast_n * _FAST + 1.0

    def estimate(self, prior: float, weight: float = _WEIGHT) -> float:
        """The share, shrunk to `prior`: (s + w * prior) / (n + w). The fast count rules where it contradicts."""
        slow = (self.successes + weight * prior) / (self.n + weight)
        n_fast = self._fast_n + 1.0
        fast = (self._fast + slow) / n_fast
        if (slow - fast) ** 2 > _ALARM**2 * (fast * (1.0 - fast) / n_fast + 1e-3):
            return fast
        return slow


def isotonic(values: Seq[float], weights: Seq[float]) -> list[float]:
    """The never-falling sequence nearest to `values` in weighted squares, by pooling adjacent violators."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            below, pool_weight, n = pools.pop()
            total = pool_weight + pool[1]
            pool = ((below * pool_weight + pool[0] * pool[1]) / total, total, n + pool[2])
        pools.append(pool)
    return [value for value, _, n in pools for _ in range(n)]


class Profile:
    """What is known of one drafter."""

    def __init__(self) -> None:
        self._cells = [Rate() for _ in range(_N_BUCKETS * _N_DEPTHS)]
        self._buckets = [Rate() for _ in range(_N_BUCKETS)]
        self._depths = [Rate() for _ in range(_N_DEPTHS)]
        self._all = Rate()
        self._claimed = self._kept = 0.0
        self._curve = [claim * _TRUST for claim in _MIDDLES]
        self._until_refit = 0
        self._steps = [*_UNKNOWN] * _N_BUCKETS
        self.n_steps = 0

    def observe(self, depth: int, claim: float, right: bool) -> None:
        """A step whose parent was accepted. `depth` counts from 0 at the children of the last committed token."""
        group = _DEPTH[depth]
        bucket = _BUCKET[int(100.0 * claim + 0.5)]
        self._cells[bucket * _N_DEPTHS + group].observe(right)
        self._buckets[bucket].observe(right)
        self._depths[group].observe(right)
        self._all.observe(right)
        self._steps[bucket * _N_DEPTHS : (bucket + 1) * _N_DEPTHS] = _UNKNOWN
        self._claimed = self._claimed * _SLOW + _MIDDLES[bucket]
        self._kept = self._kept * _SLOW + right
        self.n_steps += 1
        self._until_refit -= 1
        if self._until_refit <= 0:
            self._refit()

    def step_of(self, depth: int, claim: float) -> float:
        """P(right | parent accepted) of a step with this claim; `depth` as in `observe`."""
        bucket = _BUCKET[int(100.0 * claim + 0.5)]
        place = bucket * _N_DEPTHS + _DEPTH[depth]
        known = self._steps[place]
        if known < 0.0:
            parent = self._buckets[bucket].estimate(self._curve[bucket])
            known = self._steps[place] = self._cells[place].estimate(parent)
        return known

    @property
    def trust(self) -> float:
        """What came true over what was claimed."""
        return (self._kept + _TRUST * _TRUST_STEPS) / (self._claimed + _TRUST_STEPS)

    @property
    def acceptance(self) -> float:
        """The share of all its steps that were right, lately."""
        return self._all.estimate(*_ROOT)

    def expected(self, n: int) -> list[float]:
        """Survival by depth of a chain of n nodes that has not been drafted yet."""
        survival, found = 1.0, []
        for depth in range(n):
            survival *= self._depths[_DEPTH[depth]].estimate(self.acceptance)
            found.append(survival)
        return found

    def _refit(self) -> None:
        # Soon after the start every observation matters; later the counts in the buckets carry the news.
        self._until_refit = _REFIT if self.n_steps >= _REFIT else 1
        trust = self.trust
        priors = [min(1.0, claim * trust) for claim in _MIDDLES]
        weights = [rate.n + _WEIGHT for rate in self._buckets]
        pairs = zip(self._buckets, priors, weights, strict=True)
        self._steps = [*_UNKNOWN] * _N_BUCKETS
        self._curve = isotonic([(rate.successes + _WEIGHT * prior) / weight for rate, prior, weight in pairs], weights)


class Tally:
    """How a drafter's steps fared in one text, against what was expected of them."""

    __slots__ = ("_expected", "_right")

    def __init__(self) -> None:
        self._expected = self._right = 0.0

    def observe(self, expected: float, right: bool) -> None:
        self._expected = self._expected * _TALLY_KEPT + expected
        self._right = self._right * _TALLY_KEPT + right

    @property
    def factor(self) -> float:
        """At most 1: what a step's chance is scaled with in this text."""
        return min(1.0, (self._right + _TALLY_WEIGHT) / (self._expected + _TALLY_WEIGHT))


class Watch:
    """A proposal compared with the text as it is committed, over several rounds if it is longer than one commit.

    next_position: tokens committed so far. n_right: length of the path that has come true.
    """

    __slots__ = (
        "_claims", "_n_seen", "_parents", "_profile", "_reached", "_tally", "_tokens", "n_right", "next_position",
    )  # fmt: skip

    def __init__(
        self,
        profile: Profile,
        tally: Tally,
        tokens: list[int],
        parents: list[int],
        claims: list[float],
        position: int,
    ) -> None:
        self.next_position = position
        self.n_right = 0
        self._profile = profile
        self._tally = tally
        self._tokens = tokens
        self._parents = parents
        self._claims = claims
        self._reached = -1
        self._n_seen = 0

    def advance(self, committed: Seq[int]) -> bool:
        """Score every child of an accepted node whose truth is in `committed`. True while some are yet to be scored."""
        start, end = self._n_seen, self._n_seen + len(committed)
        depths = {self._reached: start}
        for node in range(self._reached + 1, len(self._tokens)):
            depth = depths.get(self._parents[node], end)
            if depth < end:
                right = self._tokens[node] == committed[depth - start]
                above = self._claims[self._parents[node]] if self._parents[node] >= 0 else 1.0
                claim = self._claims[node] / above if above > 0.0 else 0.0
                self._tally.observe(self._profile.step_of(depth, claim), right)
                self._profile.observe(depth, claim, right)
                if right:
                    depths[node] = depth + 1
                    self._reached = node
                    self.n_right = depth + 1
        self._n_seen = end
        self.next_position += len(committed)
        return depths.get(self._reached) == end and self._reached in self._parents[self._reached + 1 :]


class Acceptance:
    """All drafters' profiles, and the proposals whose outcome is not yet known in full."""

    def __init__(self) -> None:
        self.profiles: dict[str, Profile] = {}
        self._open: dict[tuple[SequenceId, str], Watch] = {}
        self._tallies: dict[tuple[SequenceId, str], Tally] = {}

    def follows(self, sequence: SequenceId) -> bool:
        """Does a proposal for this sequence wait for more of its text?"""
        return bool(self._open) and any(key[0] == sequence for key in self._open)

    def profile(self, drafter: str) -> Profile:
        if drafter not in self.profiles:
            self.profiles[drafter] = Profile()
        return self.profiles[drafter]

    def survival(self, sequence: SequenceId, drafter: str, tree: DraftTree) -> npt.NDArray[np.float32]:
        """float32[n]: calibrated P(node lies on the accepted path), never larger than its parent's."""
        return self.calibrate(sequence, drafter, 0, tree, 0)[0].survival

    def expected(self, sequence: SequenceId, drafter: str, n: int) -> list[float]:
        """Survival by depth of a chain of n nodes that has not been drafted yet."""
        factor = self.tally(sequence, drafter).factor
        return [s * factor ** (1 + depth) for depth, s in enumerate(self.profile(drafter).expected(n))]

    def tally(self, sequence: SequenceId, drafter: str) -> Tally:
        key = (sequence, drafter)
        if key not in self._tallies:
            self._tallies[key] = Tally()
            if len(self._tallies) > _MOST_FOLLOWED:
                del self._tallies[next(iter(self._tallies))]
        return self._tallies[key]

    def calibrate(
        self, sequence: SequenceId, drafter: str, source: int, tree: DraftTree, position: int
    ) -> tuple[DraftTree, Watch]:
        """The tree with calibrated survival, all of it from `source`, and its watch.

        `position`: tokens committed when it was proposed.
        """
        profile, tally = self.profile(drafter), self.tally(sequence, drafter)
        factor = tally.factor
        claims: list[float] = tree.survival.tolist()
        parents: list[int] = tree.parents.tolist()
        depths: list[int] = []
        survival: list[float] = []
        step, depth, above, survived = profile.step_of, 0, 1.0, 1.0
        for node, parent in enumerate(parents):
            claim = claims[node]
            if parent != node - 1:
                depth, above, survived = 0, 1.0, 1.0
                if parent >= 0:
                    depth, above, survived = depths[parent] + 1, claims[parent], survival[parent]
            if survived > _HOPELESS:
                survived *= factor * step(depth, claim / above if above > 0.0 else 0.0)
            depths.append(depth)
            survival.append(survived)
            depth, above = depth + 1, claim
        sources = np.full(len(parents), source, np.uint8)
        calibrated = DraftTree(tree.tokens, tree.parents, np.array(survival, np.float32), sources, tree.mode)
        return calibrated, Watch(profile, tally, tree.tokens.tolist(), parents, claims, position)

    def score(
        self, sequence: SequenceId, drafter: str, watch: Watch | None, position: int, committed: Seq[int]
    ) -> None:
        """`committed` followed `position` tokens. `watch`: this round's proposal, None if there was none.

        Of several proposals that reach further than this commit only the oldest is followed: they mostly copy the same
        text, and counting that once for each would make one long copy look like many.
        """
        key = (sequence, drafter)
        followed = self._open.pop(key, None)
        if followed is not None and followed.next_position == position and followed.advance(committed):
            self._open[key] = followed
        if watch is not None and watch.advance(committed):
            self._open.setdefault(key, watch)
        if len(self._open) > _MOST_FOLLOWED:
            del self._open[next(iter(self._open))]

    def forget(self, sequence: SequenceId) -> None:
        for key in [key for key in self._tallies if key[0] == sequence]:
            del self._tallies[key]
        for key in [key for key in self._open if key[0] == sequence]:
            del self._open[key]
