"""Where the end of a text occurred before, and how often: the answers of a counted suffix tree, without the tree.

Contract: an index gives the places where the longest known suffix of a text ends; the places themselves are the
counts. A node of the suffix tree is its list of places, and its children are these places grouped by the token that
follows, so a draft opens only the few nodes it visits. `GrowingIndex` is for a text being written: three dictionary
steps a token. `SealedIndex` is for texts that no longer change: some 25 bytes a token, sorted once. Knows no drafts,
no rates.

Limits: matches are compared over `MAX_MATCH` tokens, and `MAX_PLACES` places of a suffix are looked at, the latest
ones of a growing text and an even sample of sealed ones. Below both limits the counts are those of all occurrences.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from edgespec.spec.ports import IntArray

# Longer matches promise nothing more, and comparing them would cost a multiple on texts that go round in circles.
MAX_MATCH = 32

# A draft follows all places at once; more of them change no ratio by much and would cost as many steps per node.
MAX_PLACES = 32

# Token ids below 2^20 make exact keys of the last three; beyond, keys may collide, and every match is compared anyway.
_ID_BITS = 20
_MIDDLE = 3
_MIDDLE_MASK = (1 << _ID_BITS * _MIDDLE) - 1

# The key of the last eight forgets a token after 64 / 8 steps.
_LONG = 8
_LONG_SHIFT = 8
_MASK = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15  # spreads neighbouring keys over the table (Fibonacci hashing)

# Slots per token of the table that tells whether a search is worth making; fewer, and more are made in vain.
_GATE_SLOTS = 8

# Places around the one where a query would stand that are looked at before the whole order is searched.
_AROUND = 64

_END = -1


@dataclass(frozen=True, slots=True)
class Places:
    """`length` tokens, the end of the text asked about, end at each index of `ends` in `text`; the latest come first.

    What follows place `end` is text[end + 1], text[end + 2], ... up to the text's end or a negative token.
    """

    text: Sequence[int]
    ends: list[int]
    length: int


class GrowingIndex:
    """Earlier places of the suffixes of one growing text. Not thread-safe.

    Places with the same last token form a chain, the latest first; those with the same last three another one, those
    with the same last eight a third. The longest of these that has a match holds all places of the longest suffix.
    """

    __slots__ = ("_chains", "_heads", "_long_key", "_middle_key", "text")

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self.text: list[int] = []
        self._heads: tuple[dict[int, int], dict[int, int], dict[int, int]] = ({}, {}, {})
        self._chains: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._middle_key = self._long_key = 0
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self.text)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens: constant time each."""
        middle, long, place = self._middle_key, self._long_key, len(self.text)
        short_heads, middle_heads, long_heads = self._heads
        short_append, middle_append, long_append = (chain.append for chain in self._chains)
        append = self.text.append
        for token in tokens:
            append(token)
            short_append(short_heads.get(token, _END))
            short_heads[token] = place
            middle = (middle << _ID_BITS ^ token) & _MIDDLE_MASK
            middle_append(middle_heads.get(middle, _END))
            middle_heads[middle] = place
            long = (long << _LONG_SHIFT ^ token * _ODD) & _MASK
            long_append(long_heads.get(long, _END))
            long_heads[long] = place
            place += 1
        self._middle_key, self._long_key = middle, long

    def longest(self) -> Places | None:
        """The earlier places of the longest suffix that has any; None if the last token is new."""
        short, middle, long = self._chains
        if not short or short[-1] < 0:
            return None
        for chain, least in ((long, _LONG), (middle, _MIDDLE), (short, 1)):
            if chain[-1] >= 0:
                places = self._walk(chain, least)
                if places is not None:
                    return places
        return None

    def _walk(self, chain: list[int], least: int) -> Places | None:
        """The longest matches, of at least `least` tokens, among the latest places of a chain."""
        best, ends = least, []
        place = chain[-1]
        for _ in range(MAX_PLACES):
            if place < 0:
                break
            length = self._matching(place)
            if length > best:
                best, ends = length, [place]
            elif length == best:
                ends.append(place)
            place = chain[place]
        return Places(self.text, ends, best) if ends else None

    def _matching(self, end: int) -> int:
        """How many tokens up to `end` equal the text's last ones, at most MAX_MATCH."""
        text, last = self.text, len(self.text) - 1
        limit, length = min(MAX_MATCH, end + 1), 0
        # In texts that go round in circles most matches are long: a slice saves the single steps.
        if limit == MAX_MATCH and text[end - _LONG] == text[last - _LONG]:
            length = MAX_MATCH if text[end + 1 - limit : end + 1] == text[-limit:] else 0
        while length < limit and text[end - length] == text[last - length]:
            length += 1
        return length


class SealedIndex:
    """Texts that do not change, indexed together: a suffix array over the reversed texts, sorted by MAX_MATCH tokens.

    Reversed, the suffixes of a text are prefixes, so all places of a suffix are neighbours, and those of a shorter one
    lie around them. Immutable: sequences may share it, and it lives as long as any of them holds it.
    """

    def __init__(self, texts: Sequence[IntArray]) -> None:
        """Raises ValueError for a negative token. Building takes some 2 us per token."""
        self.n_tokens = sum(map(len, texts))
        forward = _joined(texts)
        self.texts = _parts(forward, texts)
        self._tokens = forward.data
        backward = np.ascontiguousarray(forward[::-1])
        # Big-endian and one up, so that bytes compare like tokens, with the border between texts below all of them.
        self._raw = (backward + 1).astype(">u4").tobytes()
        self._order = _sorted_starts(backward).data
        self._gate, self._gate_shift = _gate(forward)

    def may_hold(self, before: int, last: int) -> bool:
        """False if these two tokens surely stand nowhere here side by side."""
        return bool(self._gate[((before << _ID_BITS ^ last) * _ODD & _MASK) >> self._gate_shift])

    def longest(self, query: bytes) -> Places | None:
        """The places of the longest suffix of a text that stands in here, None if there is none.

        `query`: the text's end as `query_of` gives it.
        """
        order, raw = self._order, self._raw
        near = bisect_left(order, query, key=lambda start: raw[4 * start : 4 * (start + MAX_MATCH)])
        length = max(
            (_common(query, raw[4 * order[i] : 4 * (order[i] + MAX_MATCH)]) for i in (near - 1, near) if self._is(i)),
            default=0,
        )
        if not length:
            return None
        low, high = self._bounds(query[: 4 * length], near)
        last = len(self._tokens) - 1
        starts = order[low : high : -(-(high - low) // MAX_PLACES)]
        return Places(self._tokens, sorted((last - start for start in starts), reverse=True), length)

    def _bounds(self, prefix: bytes, near: int) -> tuple[int, int]:
        """Where the starts with this prefix lie in the order; `near` is inside or at an end."""
        order, raw, n = self._order, self._raw, len(prefix)

        def key(start: int) -> bytes:
            return raw[4 * start : 4 * start + n]

        from_, to = max(0, near - _AROUND), min(len(order), near + _AROUND)
        low = bisect_left(order, prefix, from_, near, key=key)
        if low == from_:
            low = bisect_left(order, prefix, 0, near, key=key)
        high = bisect_right(order, prefix, near, to, key=key)
        if high == to:
            high = bisect_right(order, prefix, near, key=key)
        return low, high

    def _is(self, place: int) -> bool:
        return 0 <= place < len(self._order)


def query_of(text: Sequence[int]) -> bytes:
    """The last MAX_MATCH tokens of a text, as `SealedIndex.longest` wants them."""
    tail = np.array(text[: -MAX_MATCH - 1 : -1], np.int32)
    return (tail + 1).astype(">u4").tobytes()


def _joined(texts: Sequence[IntArray]) -> IntArray:
    """The texts with a border before, between and behind them."""
    border = np.array([_END], np.int32)
    parts = [border]
    for text in texts:
        if len(text) and int(text.min()) < 0:
            raise ValueError("a token id is negative")
        parts += [text, border]
    return np.concatenate(parts)


def _parts(joined: IntArray, texts: Sequence[IntArray]) -> tuple[IntArray, ...]:
    """The same texts as views of the joined ones, so that no token is held twice."""
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    return tuple(joined[start + 1 : start + 1 + len(text)] for start, text in zip(starts, texts, strict=False))


def _sorted_starts(tokens: IntArray) -> IntArray:
    """The starts of all suffixes in the order of their first MAX_MATCH tokens, borders left out.

    Prefix doubling (Manber and Myers): ranks by n tokens, paired n apart, are ranks by 2n tokens.
    """
    n = len(tokens)
    ranks = tokens.astype(np.int64) + 1
    order = np.argsort(ranks, kind="stable")
    known = 1
    while known < MAX_MATCH:
        ranks = _dense(ranks, order)
        behind = np.zeros(n, np.int64)
        behind[:-known] = ranks[known:] + 1
        ranks = ranks * (n + 1) + behind
        order = np.argsort(ranks, kind="stable")
        known *= 2
    return np.ascontiguousarray(order[tokens[order] >= 0].astype(np.int32))


def _dense(values: npt.NDArray[np.int64], order: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Values replaced by their rank among the different ones; `order` sorts them."""
    ranks = np.empty(len(values), np.int64)
    ordered = values[order]
    ranks[order] = np.concatenate(([0], np.cumsum(ordered[1:] != ordered[:-1])))
    return ranks


def _gate(tokens: IntArray) -> tuple[bytearray, int]:
    """A table with 1 at the hash of every two neighbours, and the shift that makes a slot of a hash."""
    bits = max(8, (_GATE_SLOTS * len(tokens)).bit_length())
    wide = tokens.astype(np.uint64)
    keys = wide[:-1] << np.uint64(_ID_BITS) ^ wide[1:]
    table = np.zeros(1 << bits, np.uint8)
    table[(keys * np.uint64(_ODD)) >> np.uint64(64 - bits)] = 1
    return bytearray(table.tobytes()), 64 - bits


def _common(one: bytes, other: bytes) -> int:
    """Equal four-byte tokens at the start of both."""
    n = min(len(one), len(other))
    differing = int.from_bytes(one[:n], "big") ^ int.from_bytes(other[:n], "big")
    return (8 * n - differing.bit_length()) // 32
