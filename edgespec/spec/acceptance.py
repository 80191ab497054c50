"""How far a drafter's guesses can be trusted, learned from what the target said.

A drafter claims a survival for each node. What counts is the claim for one step, survival over the parent's survival,
and whether the token, once its parent was accepted, was right: behind the first wrong token nothing is known. Steps are
counted by drafter, depth and bucket of the claim (for a look-up, its bucket of match lengths; for a model, its
confidence); see `edgespec.spec.profile`.

A text that disappoints is believed less than others: its steps are also scaled down by what came true in it over what
was expected. It is never believed more, since a few lucky steps would then make long chains look certain.

Calibrated survival is the product of the steps, so it never rises from parent to child. Every proposal is scored
against the committed text whether or not it was verified. Contract: planning only, never correctness; knows no costs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt

from edgespec.spec.ports import SequenceId
from edgespec.spec.profile import Profile
from edgespec.spec.tree import DraftTree

# Proposals followed at a time. Answers that are broken off leave theirs behind, which must not pile up.
_MOST_FOLLOWED = 64

# Below this survival no node is ever worth its row, and the rest of its branch is not worth looking at.
_HOPELESS = 0.01

# One text's own record: its steps count so much less with each that follows, and the general record is worth so many.
_TALLY_KEPT = 0.97
_TALLY_WEIGHT = 2.5

# Raise when counts mean something else, say because buckets or depths are told apart otherwise.
_TEXT_VERSION = 1


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

    def to_text(self) -> str:
        """What is known of each drafter; not what is known of a text."""
        profiles = {name: profile.counts() for name, profile in self.profiles.items()}
        return json.dumps({"version": _TEXT_VERSION, "profiles": profiles}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Acceptance:
        """What an earlier run's `to_text` said, believed in part. Raises ValueError for any other text."""
        try:
            raw = json.loads(text)
            if raw["version"] != _TEXT_VERSION:
                raise ValueError(f"an acceptance of version {raw['version']}")
            found = cls()
            for name, counts in raw["profiles"].items():
                found.profile(name).recall(counts)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"this is no acceptance: {error!r}") from error
        return found

    def recall(self, earlier: Acceptance) -> None:
        """Begin from an earlier run's profiles, for drafters of which nothing is known yet."""
        self.profiles = {**earlier.profiles, **self.profiles}

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
        chances = np.array(survival, np.float32)
        calibrated = DraftTree(tree.tokens, tree.parents, chances, sources, tree.mode, tree.laws, tree.pinned)
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
