"""How often a draft says what its target says, measured on short greedy texts of the target's own.

The draft follows each text as it was said, which shows the rank it gave to every token, and how far the chains of
rounds would have come true. Drives models that are handed in and decides nothing. Kept per target, draft and library
build: threads and cores change how fast both are, not what they say.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgespec.backend.probe import model_fingerprint
from edgespec.draft.trunk import Trunk
from edgespec.records import Records
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Target
from edgespec.spec.profile import Profile
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.step import StepModel
from edgespec.spec.verify import PathVerifier
from edgespec.tune.decide import PRIOR_ACCEPTANCE
from edgespec.tune.measure import SEQUENCE, Clock

# Raise when other things are counted: older records are then made anew.
VERSION = 2

# Tokens of a chain: longer ones hardly ever pay.
CHAIN = 8
# Before anything was counted: how often the target's token is the draft's second, third, ... guess where it is not its
# first, as in published traces of small drafts.
RANKS = (0.45, 0.15, 0.08, 0.05)
# Counts are shrunk by so many observations, towards what they would be by the coarser count: a draft that is nearly
# always right misses a handful of tokens, whose ranks alone say little.
_ROOT_WEIGHT = 4.0
_DEPTH_WEIGHT = 8.0
_RANK_WEIGHT = 8.0

GREEDY = SamplingSettings()


@dataclass(frozen=True, slots=True)
class Text:
    """What the target said, greedily, to a prompt; an end token included."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One step of a chain whose steps before it were right. depth: from 0. claim: the draft's own chance of it."""

    depth: int
    claim: float
    right: bool


@dataclass(frozen=True, slots=True)
class PairAcceptance:
    """n_tokens: that the target said. top1: share of them that the draft would have said, the text before them given.

    survivals: by depth, of chains that the draft goes on with by itself. ranks: how often the target's token is its
    second, third, ... guess where it is not its first. steps: of all its chains, in order, up to the first wrong one.
    """

    n_tokens: int
    top1: float
    survivals: tuple[float, ...]
    ranks: tuple[float, ...]
    steps: tuple[ChainStep, ...] = ()

    def to_text(self) -> str:
        fields = asdict(self)
        fields["steps"] = [[one.depth, one.claim, int(one.right)] for one in self.steps]
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> PairAcceptance:
        """What `to_text` wrote. Raises ValueError for any other text."""
        try:
            raw = json.loads(text)
            steps = tuple(ChainStep(int(depth), float(claim), bool(right)) for depth, claim, right in raw["steps"])
            survivals, ranks = _floats(raw["survivals"]), _floats(raw["ranks"])
            found = cls(int(raw["n_tokens"]), float(raw["top1"]), survivals, ranks, steps)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this is no acceptance of a pair: {error!r}") from error
        chances = (found.top1, *survivals, *ranks, *(one.claim for one in steps))
        if not survivals or not all(0.0 <= chance <= 1.0 for chance in chances):
            raise ValueError("an acceptance is made of chances")
        if not all(0 <= one.depth < CHAIN for one in steps):
            raise ValueError(f"chains have {CHAIN} steps")
        return found

    def experience(self, names: Iterable[str]) -> Acceptance:
        """What a policy may begin with for drafters of these names: worth a few steps, as from an earlier run."""
        seen = Profile()
        for one in self.steps:
            seen.observe(one.depth, one.claim, one.right)
        found = Acceptance()
        for name in names:
            found.profile(name).recall(seen.counts())
        return found


def _floats(raw: list[Any]) -> tuple[float, ...]:
    return tuple(map(float, raw))


def stored_acceptance(target: Path, draft: str, library: str, records: Records) -> PairAcceptance | None:
    """What was counted earlier of this draft (its fingerprint) with this target; None if nothing was."""
    try:
        return PairAcceptance.from_text(records.get(_key(target, draft, library)) or "")
    except ValueError:
        return None


def save_acceptance(target: Path, draft: str, library: str, records: Records, found: PairAcceptance) -> None:
    records.put(_key(target, draft, library), found.to_text())


def _key(target: Path, draft: str, library: str) -> str:
    return "|".join(["agreement", str(VERSION), model_fingerprint(target), draft, library])


# -- measuring ----------------------------------------------------------------------------------------------------


def own_texts(
    target: Target, prompts: Iterable[Seq[int]], n_tokens: int, ends: frozenset[int], clock: Clock
) -> Iterator[Text]:
    """What `target` says to each prompt, up to `n_tokens` of it, by plain greedy decoding. A prompt that leaves no room
    for an answer is passed over. target: an idle one that nobody needs the cache of. Raises what it raises.
    """
    for prompt in prompts:
        if len(prompt) >= 1 and len(prompt) + n_tokens <= target.capabilities.n_ctx:
            try:
                yield Text(tuple(prompt), _answer(target, list(prompt), n_tokens, ends, clock))
            finally:
                target.release(SEQUENCE)


def _answer(target: Target, prompt: list[int], n_tokens: int, ends: frozenset[int], clock: Clock) -> tuple[int, ...]:
    chunk = target.capabilities.max_chunk
    before = np.array(prompt[:-1], np.int32)
    for start in range(0, len(before), chunk):
        target.extend(SEQUENCE, before[start : start + chunk])
    state = SequenceState.start(SEQUENCE, prompt, Law(GREEDY), n_tokens, ends)
    loop = Loop(target, FixedPolicy(0), PathVerifier(), clock)
    plain = Drafting.of(state, ())
    while state.finish is None:
        loop.run([plain])
    return tuple(state.tokens[state.n_prompt :])


@dataclass(frozen=True, slots=True)
class _Place:
    """One token of a text. rank: the draft's, of the target's token, 0 for one that it did not rank. claim: the draft's
    own chance of its first one.
    """

    rank: int
    claim: float


def measure_acceptance(step: StepModel, texts: Iterable[Text]) -> PairAcceptance:
    """Let the draft follow the texts. step: a network that nobody else uses.

    A chain that the draft makes by itself is the text as long as it is right, so following is enough. What does not fit
    into its context is left out. Raises what the network raises.
    """
    trunk = Trunk(step)
    places = [_follow(trunk, text) for text in texts]
    return _found(places, [chain for own in places for chain in _chains(own)])


def _follow(trunk: Trunk, text: Text) -> list[_Place]:
    known, found = list(text.prompt), list[_Place]()
    answer = text.answer[: max(0, trunk.limits.n_ctx - len(known))]
    for first in range(0, len(answer), trunk.limits.max_rows):
        asked = answer[first : first + trunk.limits.max_rows]
        ranked = trunk.rank([*known, *asked[:-1]], lambda: True, len(asked))
        known += asked
        if ranked is not None:
            claims = np.exp(ranked.logits[:, 0] - ranked.log_sums).tolist()
            for token, ids, claim in zip(asked, ranked.ids.tolist(), claims, strict=True):
                rank = 1 + ids.index(token) if token in ids else 0
                found.append(_Place(rank, round(min(1.0, claim), 3)))  # as it is kept
    return found


def _chains(places: Seq[_Place]) -> Iterator[ChainStep]:
    """Of rounds that draft CHAIN tokens each, where rounds begin: behind the token that the target put right.

    Chains that begin at regular places come true more often, since wrong guesses like company: the place behind one is
    where a round begins, more often than it is one of all places.
    """
    start = 0
    while start < len(places):
        n_right = 0
        for place in places[start : start + CHAIN]:
            yield ChainStep(n_right, place.claim, place.rank == 1)
            if place.rank != 1:
                break
            n_right += 1
        start += n_right + 1


def _found(followed: Seq[Seq[_Place]], steps: Seq[ChainStep]) -> PairAcceptance:
    ranks_seen = Counter(place.rank for places in followed for place in places)
    reached, right = Counter(one.depth for one in steps), Counter(one.depth for one in steps if one.right)
    n_tokens, n_first = ranks_seen.total(), ranks_seen[1]
    usual = (right.total() + _ROOT_WEIGHT * PRIOR_ACCEPTANCE) / (len(steps) + _ROOT_WEIGHT)
    survival, survivals = 1.0, []
    for depth in range(CHAIN):
        survival *= (right[depth] + _DEPTH_WEIGHT * usual) / (reached[depth] + _DEPTH_WEIGHT)
        survivals.append(survival)
    missed = n_tokens - n_first + _RANK_WEIGHT
    ranks = tuple((ranks_seen[rank] + _RANK_WEIGHT * share) / missed for rank, share in enumerate(RANKS, 2))
    top1 = n_first / n_tokens if n_tokens else PRIOR_ACCEPTANCE
    return PairAcceptance(n_tokens, top1, tuple(survivals), ranks, tuple(steps))
