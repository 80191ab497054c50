"""Drafts what followed the last time the text went like this: a suffix automaton over prompt and output.

Contract: the index holds exactly the committed tokens; rejected guesses never enter it. The whole prompt is indexed in
`begin`, about 2 us per token beside a prefill that takes 100 times as long on any machine, so that no later call has a
spike that misses its deadline; when the same sequence begins again and its text is a prefix of the new prompt (the next
chat turn), only the new part is read. Needs no second model, no rows and no minimum of history. Survival is measured,
not assumed: running rates by match length. Calls for a sequence that has not begun raise KeyError.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence as Seq

from edgespec.draft.automaton import SuffixAutomaton
from edgespec.draft.branch import Branch, grow
from edgespec.draft.rates import Rates
from edgespec.draft.tail import Tail
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import EMPTY, DraftTree

# Shorter matches are chance on natural text: after 2 equal tokens the third is right about one time in three.
_MIN_MATCH = 3

# Match lengths that share one rate start here. Every copied token makes the match one longer, so a chain climbs these.
_BUCKETS = (1, 3, 4, 5, 7, 10, 16, 32)
_BUCKET = [max(0, bisect_right(_BUCKETS, length) - 1) for length in range(_BUCKETS[-1] + 1)]

# Starting values, replaced by what is observed: a copy that has gone well for long mostly goes on.
_UNIQUE = (0.3, 0.45, 0.55, 0.65, 0.75, 0.85, 0.92, 0.96)
# The first token when the match has been followed by different tokens before, and the rival's first token.
_AMBIGUOUS = tuple(rate * 0.7 for rate in _UNIQUE)
_RIVAL = 0.15
_RIVAL_SITUATION = len(_UNIQUE) + len(_AMBIGUOUS)

# Different followers looked at to find a rival; a short match in a long text can have hundreds.
_MAX_RIVALS = 8


class LookupDrafter:
    """`min_match`: tokens of the text's end that must have occurred before for a draft to be made.

    `n_indexed` counts the tokens read into an index so far, over all sequences and rebuilds.
    """

    name = "lookup"
    needs = Needs.TOKENS

    def __init__(self, min_match: int = _MIN_MATCH) -> None:
        self.n_indexed = 0
        self._min_match = max(1, min_match)
        self._texts: dict[SequenceId, SuffixAutomaton] = {}
        self._tails: dict[SequenceId, Tail] = {}
        self._drafts: dict[SequenceId, list[Branch]] = {}
        self._rates = Rates((*_UNIQUE, *_AMBIGUOUS, _RIVAL))

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        tokens: list[int] = prompt.tolist()
        text = self._texts.get(sequence)  # what is not indexed yet is in the prompt again, or was dropped since
        if text is None or tokens[: len(text)] != text.text:
            text = self._texts[sequence] = SuffixAutomaton()
        self.n_indexed += len(tokens) - len(text)
        text.extend(tokens[len(text) :])
        self._tails[sequence] = Tail(tokens, self._min_match, _BUCKETS[-1])
        self._drafts[sequence] = []

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        """The continuation of the longest match, and with more than one leaf the latest rival that differs at once."""
        text = self._text(sequence)
        if plan.max_nodes <= 0 or text.match_length < self._min_match:
            return EMPTY  # most rounds of most answers, so they go the shortest way
        branches = self._drafts[sequence] = self._branches(text, plan)
        return grow(branches, self._rates, plan)

    def behind(self, sequence: SequenceId) -> int:
        return 0

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Nothing to prepare: a proposal costs microseconds."""

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Index the committed tokens. Guesses are scored against them, also those that were cut from the tree."""
        emitted: list[int] = commit.tokens.tolist()
        self._tails[sequence].append(emitted)
        drafts = self._drafts[sequence]
        if drafts:
            for branch in drafts:
                branch.learn(self._rates, emitted)
            self._drafts[sequence] = []

    def is_silent(self, sequence: SequenceId, least_claim: float = 0.0) -> bool:
        """By the match that the text's last tokens show, which may be shorter than the longest one."""
        tail = self._tails[sequence]
        if not tail.length:
            return True
        if self._rates.values[_bucket(tail.length)] >= least_claim:
            return False
        return tail.is_hushed()

    def follow(self, sequence: SequenceId, tokens: Seq[int], least_claim: float = 0.0) -> bool:
        """They are indexed once that is of use."""
        self._tails[sequence].append(tokens)
        return self.is_silent(sequence, least_claim)

    def end(self, sequence: SequenceId) -> None:
        self._texts.pop(sequence, None)
        self._tails.pop(sequence, None)
        self._drafts.pop(sequence, None)

    def indexed(self, sequence: SequenceId) -> tuple[int, ...]:
        """The tokens in the index: the committed text, and nothing else."""
        return tuple(self._text(sequence).text)

    def matched(self, sequence: SequenceId) -> int:
        """Tokens of the match that decides whether it is silent; 0 for none."""
        return self._tails[sequence].length

    def _text(self, sequence: SequenceId) -> SuffixAutomaton:
        """With everything that was committed."""
        text = self._texts[sequence]
        self.n_indexed += self._tails[sequence].read_into(text)
        return text

    def _branches(self, text: SuffixAutomaton, plan: Plan) -> list[Branch]:
        length, n = text.match_length, plan.max_nodes
        rivals = text.rivals(_MAX_RIVALS)
        first = _bucket(length) + (len(_UNIQUE) if rivals else 0)
        branches = [Branch(text.continuation(n), [first, *_climb(length + 1, n - 1)])]
        if rivals and plan.max_leaves > 1 and n > 1:
            tokens = [text.text[rivals[0]], *text.follow(rivals[0], n - 2)]
            branches.append(Branch(tokens, [_RIVAL_SITUATION, *_climb(length + 1, n - 2)]))
        return branches


def _bucket(length: int) -> int:
    return _BUCKET[min(length, len(_BUCKET) - 1)]


def _climb(length: int, n: int) -> list[int]:
    """Situations of `n` tokens copied after a match of `length`: each makes the match one longer."""
    return [_bucket(length + i) for i in range(n)]
