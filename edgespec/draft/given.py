"""Drafts from a text that the caller predicts: what the output will mostly say, given per request.

Contract: per sequence a position in the given text says which token the output should say next, and the draft is what
stands there. When the output says something else, the alignments that would explain it are ranked (one to three tokens
replaced, inserted or left out, a block moved) and drafting goes on at once from the best, with more leaves also from
the next ones. When no alignment is plausible it stays silent until the output comes back to the text; at the end of
the text it stops. One drafter serves one given text. Calls for a sequence that has not begun raise KeyError. It knows
tokens only; the caller makes them with the target's vocabulary.

Alignments are weighed in bits: log2 of how much likelier the tokens are under the alignment than by chance, less what
the edit itself costs. A matched token counts by its rarity, so a comma anchors little and a name much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log2

from edgespec.draft.automaton import SuffixAutomaton
from edgespec.draft.branch import Branch, grow
from edgespec.draft.rates import Rates
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import DraftTree

# Tokens matched in a row after which an alignment counts as certain: chance does not match three.
_CERTAIN = 3

# Starting rates by tokens matched in a row (0, 1, 2, certain), then of a side branch's first token.
_RATES = (0.5, 0.75, 0.9, 0.97, 0.12)
_SIDE = 4

# P(n given tokens were replaced | by m emitted ones): row m - 1, column n. Mostly one word for one word, so 1 leads.
_REPLACED = ((0.06, 0.70, 0.15, 0.05), (0.04, 0.45, 0.35, 0.10), (0.03, 0.35, 0.30, 0.25))
_REPLACED_WEIGHT = 2.0

# A single token is looked for this near only: further off it is chance. Longer anchors are found anywhere.
_NEAR = 64

# Emitted tokens compared to weigh an anchor: more evidence than this changes no order.
_MAX_ANCHOR = 16

# Longer replacements than this are rare; each further token that fits nothing costs these bits.
_LONG_EDIT, _STRAY_BITS = 3, 2.0

# What an anchor must be worth. Lower, and every common word in a text of its own brings a draft that fails.
_ANCHOR_FLOOR = 0.0

# What an unanchored guess must be worth: reached by the fifth emitted token that fits nothing.
_FRESH_FLOOR = -5.0

# Alignments kept; more side branches than this would share rows among guesses that are hardly ever right.
_MAX_ALIGNMENTS = 4


@dataclass(frozen=True, slots=True)
class Alignment:
    """The output may go on at `position` of the given text; its last `n_matched` tokens stand right before it."""

    position: int
    n_matched: int
    bits: float


class GivenText:
    """The given tokens with what ranking alignments needs: where each token stands, and how rare it is."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        self._places: dict[int, list[int]] = {}
        for place, token in enumerate(self.tokens):
            self._places.setdefault(token, []).append(place)
        # 64 stands for the language outside this text: without it every token of a short text would look common.
        total = len(self.tokens) + 64
        rarity = (log2(total / len(self._places[token])) for token in self.tokens)
        self._bits_before = [0.0, *accumulate(rarity)]
        self._automaton = SuffixAutomaton(self.tokens)
        self._replaced = [[_REPLACED_WEIGHT * p for p in row] for row in _REPLACED]

    def rank(self, output: Sequence[int], base: int, n_strayed: int) -> list[Alignment]:
        """Alignments of an output that left the text at `base` and has said `n_strayed` tokens since, best first."""
        best: dict[int, Alignment] = {}
        for found in (*self._fresh(base, n_strayed), *self._anchored(output, base, n_strayed)):
            known = best.get(found.position)
            if found.position < len(self.tokens) and (known is None or known.bits < found.bits):
                best[found.position] = found
        return sorted(best.values(), key=lambda a: -a.bits)[:_MAX_ALIGNMENTS]

    def learn_replacement(self, n_emitted: int, n_given: int) -> None:
        """An edit was understood: `n_given` tokens of the text became `n_emitted` others."""
        if 1 <= n_emitted <= len(self._replaced) and 0 <= n_given < len(self._replaced[0]):
            self._replaced[n_emitted - 1][n_given] += 1.0

    def _fresh(self, base: int, n_strayed: int) -> Iterator[Alignment]:
        """The edit has just ended, with nothing to show for it yet."""
        weights = self._replaced[min(n_strayed, len(self._replaced)) - 1]
        too_long = _STRAY_BITS * max(0, n_strayed - _LONG_EDIT)
        total = sum(weights)
        for n_given, weight in enumerate(weights):
            bits = log2(weight / total) - too_long
            if bits >= _FRESH_FLOOR:
                yield Alignment(base + n_given, 0, bits)

    def _anchored(self, output: Sequence[int], base: int, n_strayed: int) -> Iterator[Alignment]:
        """The last tokens of the output stand in the text: nearby, or in the longest match anywhere."""
        places = self._places.get(output[-1], [])
        near = places[bisect_left(places, base - _NEAR) : bisect_left(places, base + _NEAR)]
        match = self._automaton.find(output[-_MAX_ANCHOR:])
        for place in near if match.length < 2 else (*near, match.end):
            n_matched = self._n_matched(output, place)
            bits = self._anchor_bits(place + 1, n_matched, base, n_strayed)
            if bits >= _ANCHOR_FLOOR:
                yield Alignment(place + 1, n_matched, bits)

    def _n_matched(self, output: Sequence[int], place: int) -> int:
        """How many of the output's last tokens stand in the text up to and including `place`."""
        limit = min(_MAX_ANCHOR, len(output), place + 1)
        n = 0
        while n < limit and output[-1 - n] == self.tokens[place - n]:
            n += 1
        return n

    def _anchor_bits(self, position: int, n_matched: int, base: int, n_strayed: int) -> float:
        """Evidence less cost. What matched before the output strayed fits other alignments too and counts half."""
        n_since = min(n_matched, n_strayed)
        before = self._bits_before
        evidence = before[position] - 0.5 * (before[position - n_since] + before[position - n_matched])
        skipped = position - n_since - base
        too_long = _STRAY_BITS * min(_LONG_EDIT, max(0, n_strayed - n_since - _LONG_EDIT))
        return evidence - too_long - 2.0 * log2(1 + abs(skipped))


class _Track:
    """One sequence's way through the given text."""

    __slots__ = ("_base", "_edit", "_n_strayed", "_output", "_text", "branches", "n_matched", "position", "sides")

    def __init__(self, text: GivenText) -> None:
        self.branches: list[Branch] = []
        self.position = 0
        self.n_matched = _CERTAIN - 1
        self.sides: list[Alignment] = []
        self._text = text
        self._output: list[int] = []
        self._base = 0
        self._n_strayed = 0
        self._edit = (0, 0)

    @property
    def output(self) -> Sequence[int]:
        return self._output

    def follow(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._output.append(token)
            if self.position < len(self._text.tokens) and self._text.tokens[self.position] == token:
                self._match()
            else:
                self._stray()

    def _match(self) -> None:
        if self._n_strayed:
            self._text.learn_replacement(*self._edit)
            self._n_strayed = 0
            self.sides = []
        self.position += 1
        self.n_matched = min(self.n_matched + 1, _CERTAIN)

    def _stray(self) -> None:
        """Find where to go on. Only a predicted token confirms an alignment; until then the edit is still the same."""
        if not self._n_strayed:
            self._base = self.position
        self._n_strayed += 1
        ranked = self._text.rank(self._output, self._base, self._n_strayed)
        followed = ranked[0] if ranked else Alignment(len(self._text.tokens), 0, 0.0)
        n_since = min(followed.n_matched, self._n_strayed)
        self._edit = (self._n_strayed - n_since, followed.position - n_since - self._base)
        self.position = followed.position
        # An anchor has predicted nothing yet, so it is not certain however long it is.
        self.n_matched = min(followed.n_matched, _CERTAIN - 1)
        self.sides = ranked[1:]


class GivenDrafter:
    """`tokens`: the predicted output, from its first token on."""

    name = "given"
    needs = Needs.TOKENS

    def __init__(self, tokens: Sequence[int]) -> None:
        self._text = GivenText(tokens)
        self._tracks: dict[SequenceId, _Track] = {}
        self._rates = Rates(_RATES)

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        """The output starts after the prompt, so what the prompt says moves nothing."""
        self._tracks[sequence] = _Track(self._text)

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        """What the given text says next; after a difference, with leaves to spare, also what else it may say next."""
        track = self._tracks[sequence]
        track.branches = self._branches(track, plan)
        return grow(track.branches, self._rates, plan)

    def behind(self, sequence: SequenceId) -> int:
        return 0

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Nothing to prepare: a proposal costs microseconds."""

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Follow the output. Guesses are scored against it, also those that were cut from the verified tree."""
        track = self._tracks[sequence]
        emitted: list[int] = commit.tokens.tolist()
        for branch in track.branches:
            branch.learn(self._rates, emitted)
        track.branches = []
        track.follow(emitted)

    def end(self, sequence: SequenceId) -> None:
        self._tracks.pop(sequence, None)

    def output(self, sequence: SequenceId) -> tuple[int, ...]:
        """The committed output that the alignment rests on."""
        return tuple(self._tracks[sequence].output)

    def _branches(self, track: _Track, plan: Plan) -> list[Branch]:
        if plan.max_nodes <= 0:
            return []
        branches = [self._branch(track.position, track.n_matched, track.n_matched, plan.max_nodes)]
        sides = track.sides[: plan.max_leaves - 1]
        branches += [self._branch(side.position, _SIDE, min(side.n_matched, 2), plan.max_nodes) for side in sides]
        return branches

    def _branch(self, position: int, first: int, n_matched: int, n: int) -> Branch:
        tokens = self._text.tokens[position : position + n]
        later = [min(n_matched + i, _CERTAIN) for i in range(1, len(tokens))]
        return Branch(tokens, [first, *later] if tokens else [])
