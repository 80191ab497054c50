"""How much of a predicted text came true: a function of the two texts' tokens, whatever was drafted."""

from __future__ import annotations

from collections.abc import Sequence


def n_came_true(prediction: Sequence[int], output: Sequence[int]) -> int:
    """The length of the longest common subsequence: tokens of the prediction that the output says, in their order.

    One pass over the longer text with the shorter one's tokens as bits of a number (Hyyro, "Bit-parallel LCS-length
    computation revisited", 2004): a 0 bit in `row` is a token counted so far. A prediction may be a thousand times as
    long as any answer, so it is never the bits of long numbers.
    """
    short, long = sorted((prediction, output), key=len)
    places: dict[int, int] = {}
    for place, token in enumerate(short):
        places[token] = places.get(token, 0) | 1 << place
    everything = (1 << len(short)) - 1
    row = everything
    for token in long:
        if token in places:
            hits = row & places[token]
            row = (row + hits | row - hits) & everything
    return len(short) - row.bit_count()
