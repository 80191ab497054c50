"""An online suffix automaton over token ids: the longest suffix of a text that occurred in it before.

Contract: after every token, `match_length` is exactly the length of the longest suffix of the text that also ends
earlier, and `match_end` is where one such earlier occurrence ends. Appending costs amortised constant time (dictionary
steps), memory is linear: a text of n tokens has at most 2n states and 3n transitions (Blumer et al., 1985). It knows
nothing of models, prompts or drafts, and it cannot forget: a text that got shorter needs a new automaton.

A new end position holds for a state and for all shorter suffixes on its chain of suffix links, and that chain is as
long as the text when the text is periodic. So a position is handed up `_FRESHENED` links only. A state further up
keeps an older one: still a true occurrence, perhaps not the most recent. A clone starts with its original's position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

# Without a bound a run of one repeated token costs quadratic time; with 1 the positions of short matches grow old.
_FRESHENED = 8

_ROOT = 0


@dataclass(frozen=True, slots=True)
class Match:
    """`length` tokens that occur in the text, the last of them at index `end`; length 0 has end -1."""

    length: int
    end: int


class SuffixAutomaton:
    """Suffix automaton of a growing text. State 0 stands for the empty string. Not thread-safe."""

    __slots__ = ("_ends", "_last", "_lengths", "_links", "_next", "_text", "match_end", "match_length", "n_steps")

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._text: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._links = [-1]
        self._lengths = [0]
        self._ends = [-1]
        self._last = _ROOT
        self.match_length = 0
        self.match_end = -1
        self.n_steps = 0
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._text)

    @property
    def text(self) -> Sequence[int]:
        """The tokens so far; the automaton's own list, not to be changed."""
        return self._text

    @property
    def n_states(self) -> int:
        return len(self._lengths)

    @property
    def n_transitions(self) -> int:
        return sum(map(len, self._next))

    def append(self, token: int) -> None:
        self.extend((token,))

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens one by one. `n_steps` sums the suffix links walked, amortised a constant per token."""
        text, transitions, links, lengths, ends = self._text, self._next, self._links, self._lengths, self._ends
        state, n_steps = self._last, 0
        for token in tokens:
            parent, state, position = state, len(lengths), len(text)
            text.append(token)
            transitions.append({})
            links.append(_ROOT)
            lengths.append(position + 1)
            ends.append(position)
            while parent >= 0 and token not in transitions[parent]:
                transitions[parent][token] = state
                parent = links[parent]
                n_steps += 1
            # The link of the whole text is its longest suffix that also ends elsewhere, which can only be earlier.
            longest = _ROOT
            if parent >= 0:
                longest = transitions[parent][token]
                if lengths[longest] != lengths[parent] + 1:
                    longest = self._clone(longest, parent, token)
                links[state] = longest
            self.match_length, self.match_end = lengths[longest], ends[longest]
            for _ in range(_FRESHENED):
                if longest == _ROOT:
                    break
                ends[longest] = position
                longest = links[longest]
                n_steps += 1
        self._last = state
        self.n_steps += n_steps

    def _clone(self, original: int, parent: int, token: int) -> int:
        """Give the strings of `original` that end in parent's longest + token a state of their own."""
        transitions, links = self._next, self._links
        clone = len(self._lengths)
        transitions.append(transitions[original].copy())
        links.append(links[original])
        self._lengths.append(self._lengths[parent] + 1)
        self._ends.append(self._ends[original])
        links[original] = clone
        while parent >= 0 and transitions[parent].get(token) == original:
            transitions[parent][token] = clone
            parent = links[parent]
            self.n_steps += 1
        return clone

    def follow(self, end: int, n: int) -> list[int]:
        """The `n` tokens after index `end`; past the end of the text the copy goes on copying what it has just written.

        That is the periodic extension: token i of the copy at or beyond the text's end equals token i - period, with
        period = len(text) - 1 - end. Needs end < len(text) - 1.
        """
        tokens = self._text[end + 1 : end + 1 + n]
        if len(tokens) < n:
            period = len(tokens)
            repeats = -(-n // period)
            tokens = (tokens * repeats)[:n]
        return tokens

    def continuation(self, n: int) -> list[int]:
        """The `n` tokens that followed the current match's earlier occurrence; empty when nothing matches."""
        return self.follow(self.match_end, n) if self.match_length else []

    def rivals(self, limit: int) -> list[int]:
        """End positions of the current match followed by another token than `continuation` offers.

        Each is the index of that other token, so `follow` continues behind it. At most `limit` are looked at, those
        whose token was seen first most recently; the order is by position, latest first.
        """
        if not self.match_length:
            return []
        offered, last = self._text[self.match_end + 1], len(self._text) - 1
        branches = self._next[self._links[self._last]]
        newest = [(token, self._ends[state]) for token, state in islice(reversed(branches.items()), limit)]
        # With a `match_end` that is not the latest, a follower can be the text's last token: nothing follows it yet.
        return sorted((end for token, end in newest if token != offered and end < last), reverse=True)

    def find(self, tokens: Sequence[int]) -> Match:
        """The longest suffix of `tokens` that occurs in the text: O(len(tokens)) amortised."""
        state, length = _ROOT, 0
        for token in tokens:
            while state != _ROOT and token not in self._next[state]:
                state = self._links[state]
                length = self._lengths[state]
            following = self._next[state].get(token)
            if following is not None:
                state, length = following, length + 1
        return Match(length, self._ends[state])
