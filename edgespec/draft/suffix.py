"""Suffix decoding: drafts what mostly followed where the text's end stood before, in the request and in a corpus.

Contract: the request's index holds exactly the committed tokens; rejected guesses never enter it. A draft is grown
best-first from the places of the longest match in the request and in the corpus. A node's chance is a measured rate
of its situation: request or corpus, match length (each copied token makes it one longer), and how far the places
agree on the token. So a single place never promises certainty, as a bare ratio of counts would (suffix decoding,
Oliaro et al., 2024), and old texts are believed as far as they come true. The corpus is shared; a sequence drafts
from it as it was when the sequence began. Needs no rows. Calls for a sequence that has not begun raise KeyError.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from edgespec.draft.corpus import Corpus
from edgespec.draft.grown import Child, Draft, grow
from edgespec.draft.rates import Rates
from edgespec.draft.suffix_tree import MAX_MATCH, GrowingIndex, Places, SealedIndex, query_of
from edgespec.draft.tail import Tail
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import EMPTY, DraftTree

# Match lengths that share one rate start here.
_BUCKETS = (1, 2, 3, 4, 6, 10, 16, 32)
_BUCKET = [max(0, bisect_right(_BUCKETS, length) - 1) for length in range(MAX_MATCH + 1)]

# How far the places agree on a token: the only place there is, all of several, or from this share on.
_SHARES = (0.75, 0.4, 0.15, 0.0)
_ALONE, _ALL = 0, 1
_N_AGREEMENTS = 2 + len(_SHARES)

# Starting rates, replaced by what is observed: the only place by match length, and the rest in terms of it.
_LENGTH_RATES = (0.33, 0.52, 0.64, 0.68, 0.78, 0.86, 0.93, 0.97)
_SHARE_FACTORS = (0.9, 0.45, 0.25, 0.1)
_OWN_RATES = tuple(r for one in _LENGTH_RATES for r in (one, 0.55 + 0.44 * one, *(one * f for f in _SHARE_FACTORS)))

# Where the places lie. Another text's are right less often, until they have proved themselves.
_OWN, _CORPUS = range(2)
_PRIORS = (*_OWN_RATES, *(0.6 * rate for rate in _OWN_RATES))
_N_PER_KIND = len(_OWN_RATES)

# A single token found in the corpus is chance, unless so many tokens in a row came from there at most so many tokens
# ago: then the text is likely one of the corpus' kind, which goes on behind the part that differs.
_ANCHOR, _ANCHORED = 4, 16

# Whether there is anything to say is told by matches of so many tokens in the request, and so many in the corpus. Fewer
# promise too little to be asked about in every round.
_LEAST_HEARD, _CORPUS_HEARD = 2, 3

# kind, length of the match, and its places: the text and where in it the match ends.
Place = tuple[Sequence[int], int]
Witnesses = tuple[int, int, list[Place]]


def children(rates: Rates, witnesses: list[Witnesses], path: list[int]) -> list[Child[list[Witnesses]]]:
    """What may follow `path`: the likeliest first.

    Places in the request go on, at its end, with the path itself: a text that repeats itself goes on repeating.
    """
    found: dict[int, Child[list[Witnesses]]] = {}
    for kind, length, places in witnesses:
        followers = _followers(places, path)
        n_places = sum(map(len, followers.values()))
        base = kind * _N_PER_KIND + _BUCKET[min(length + len(path), MAX_MATCH)] * _N_AGREEMENTS
        for token, theirs in followers.items():
            situation = base + _agreement(len(theirs), n_places)
            chance = rates.values[situation]
            known = found.get(token)
            own = (kind, length, theirs)
            if known is None:
                found[token] = (chance, token, situation, [own])
            else:
                best = known if known[0] >= chance else (chance, token, situation, known[3])
                best[3].append(own)
                found[token] = best
    return sorted(found.values(), key=lambda child: -child[0]) if len(found) > 1 else list(found.values())


def _followers(places: list[Place], path: list[int]) -> dict[int, list[Place]]:
    followers: dict[int, list[Place]] = {}
    ahead = 1 + len(path)
    for place in places:
        text, end = place
        at = end + ahead
        token = text[at] if at < len(text) else path[at - len(text)]
        if token in followers:
            followers[token].append(place)
        elif token >= 0:
            followers[token] = [place]
    return followers


def _agreement(n_agreeing: int, n_places: int) -> int:
    if n_agreeing == n_places:
        return _ALONE if n_places == 1 else _ALL
    share = n_agreeing / n_places
    return _ALL + 1 + next(i for i, least in enumerate(_SHARES) if share >= least)


class SuffixDrafter:
    """`corpus`: texts to draft from beside the request's own; None for the request alone.

    `n_indexed` counts the tokens read into requests' indexes so far, over all sequences and rebuilds.
    """

    name = "suffix"
    needs = Needs.TOKENS

    def __init__(self, corpus: Corpus | None = None) -> None:
        self.n_indexed = 0
        self._corpus = corpus
        self._texts: dict[SequenceId, GrowingIndex] = {}
        self._tails: dict[SequenceId, Tail] = {}
        self._shared: dict[SequenceId, tuple[SealedIndex, ...]] = {}
        self._n_matched: dict[SequenceId, int] = {}
        self._anchored: dict[SequenceId, int] = {}
        self._drafts: dict[SequenceId, Draft] = {}
        self._rates = Rates(_PRIORS)
        self._children = partial(children, self._rates)

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        tokens: list[int] = prompt.tolist()
        text = self._texts.get(sequence)
        if text is None or tokens[: len(text)] != text.text:
            text = self._texts[sequence] = GrowingIndex()
        self.n_indexed += len(tokens) - len(text)
        text.extend(tokens[len(text) :])
        self._tails[sequence] = Tail(tokens, _LEAST_HEARD, _BUCKETS[-1])
        self._shared[sequence] = () if self._corpus is None else self._corpus.snapshot()
        self._anchored[sequence] = 0
        self._n_matched.pop(sequence, None)
        self._drafts.pop(sequence, None)

    def behind(self, sequence: SequenceId) -> int:
        """Nothing is left to be read: `begin` indexes the whole prompt."""
        return 0

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        """A tree of what followed before; a chain of it with one leaf."""
        if plan.max_nodes <= 0 or plan.max_leaves <= 0:
            return EMPTY
        text = self._text(sequence)
        witnesses: list[Witnesses] = []
        own = text.longest()
        if own is not None:
            witnesses.append(_of(_OWN, [own]))
        if self._shared[sequence]:
            witnesses += self._in_corpus(sequence, text.text)
        if not witnesses:
            return EMPTY  # most rounds of most answers
        draft = self._drafts[sequence] = grow(witnesses, self._children, plan)
        return draft.tree()

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Nothing to prepare: a proposal costs microseconds."""

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Index the committed tokens. Guesses are scored against them, also those that were cut from the tree."""
        emitted: list[int] = commit.tokens.tolist()
        self._tails[sequence].append(emitted)
        draft = self._drafts.pop(sequence, None)
        if draft is not None:
            n_right = draft.learn(self._rates, emitted)
            n_matched = self._n_matched.pop(sequence, 0)
            if n_matched and n_matched + n_right >= _ANCHOR:
                self._anchored[sequence] = len(self._text(sequence)) + _ANCHORED

    def is_silent(self, sequence: SequenceId, least_claim: float = 0.0) -> bool:
        """By what a single place promises after the match that the text's last tokens show. Of the corpus it is only
        known where the text's last tokens do not stand in it; elsewhere it is never silent.
        """
        values, tail = self._rates.values, self._tails[sequence]
        if least_claim <= values[0]:  # a single token's match may be told
            return False
        if self._shared[sequence] and self._may_be_in_corpus(sequence):
            return False
        if not tail.length:
            return True
        return values[_BUCKET[min(tail.length, MAX_MATCH)] * _N_AGREEMENTS] < least_claim and tail.is_hushed()

    def follow(self, sequence: SequenceId, tokens: Sequence[int], least_claim: float = 0.0) -> bool:
        """They are indexed once that is of use."""
        self._tails[sequence].append(tokens)
        return self.is_silent(sequence, least_claim)

    def end(self, sequence: SequenceId) -> None:
        self._texts.pop(sequence, None)
        self._tails.pop(sequence, None)
        self._shared.pop(sequence, None)
        self._anchored.pop(sequence, None)
        self._n_matched.pop(sequence, None)
        self._drafts.pop(sequence, None)

    def indexed(self, sequence: SequenceId) -> tuple[int, ...]:
        """The tokens in the request's index: the committed text, and nothing else."""
        return tuple(self._text(sequence).text)

    def _text(self, sequence: SequenceId) -> GrowingIndex:
        """With everything that was committed."""
        text = self._texts[sequence]
        self.n_indexed += self._tails[sequence].read_into(text)
        return text

    def _may_be_in_corpus(self, sequence: SequenceId) -> bool:
        """Whether the last tokens, few of which would be chance, may stand there; soon after a good copy always."""
        tail = self._tails[sequence]
        if tail.n_tokens < self._anchored[sequence]:
            return True
        last = tail.last(_CORPUS_HEARD)
        if len(last) < _CORPUS_HEARD:
            return False
        pairs = list(pairwise(last))
        return any(all(index.may_hold(*pair) for pair in pairs) for index in self._shared[sequence])

    def _in_corpus(self, sequence: SequenceId, text: Sequence[int]) -> list[Witnesses]:
        """The places of the longest match in any of the indexes, counted together."""
        indexes: Sequence[SealedIndex] = self._shared[sequence][::-1]
        least = 1 if len(text) < self._anchored[sequence] else 2
        if least > 1:
            before, last = text[-2:] if len(text) > 1 else (0, 0)
            indexes = [index for index in indexes if index.may_hold(before, last)]
        if not indexes or len(text) < least:
            return []
        query = query_of(text)
        matches = [match for index in indexes if (match := index.longest(query)) is not None]
        best = max((match.length for match in matches), default=0)
        if best < least:
            return []
        self._n_matched[sequence] = best
        return [_of(_CORPUS, [match for match in matches if match.length == best])]


def _of(kind: int, matches: Sequence[Places]) -> Witnesses:
    return kind, matches[0].length, [(match.text, end) for match in matches for end in match.ends]
