"""Counter-based noise: every (seed, position, token) has its own uniform number, whoever asks and in whatever order.

The target and any drafter that uses the same seed see the same noise. Knows nothing of logits, laws or sequences.

The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the noise of token t under a key is the t-th output of
the stream that the key seeds, and the key itself is two outputs deep in the stream that the seed starts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

IntTokens = npt.NDArray[np.integer[Any]]

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd: SplitMix64's step
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

# The uniform numbers are the odd multiples of 2**-53: all exact in float64, symmetric, never 0 or 1.
UNIFORM_MIN: float = 2.0**-53
UNIFORM_MAX: float = 1.0 - 2.0**-53
# Bounded support: a token more than GUMBEL_MAX - GUMBEL_MIN below the leader can never win.
GUMBEL_MIN = -math.log(-math.log(UNIFORM_MIN))
GUMBEL_MAX = -math.log(-math.log(UNIFORM_MAX))


def mix(value: int) -> int:
    """SplitMix64's finaliser, a bijection of 64-bit integers."""
    value = ((value ^ (value >> 30)) * _FIRST) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND) & _MASK
    return value ^ (value >> 31)


def key(seed: int, position: int) -> int:
    """A 64-bit key for one position. `seed` counts modulo 2**64; `position` is 0 for the first token of the text."""
    return mix((mix((seed + _GAMMA) & _MASK) + (position + 1) * _GAMMA) & _MASK)


def hash64(key: int, tokens: IntTokens) -> npt.NDArray[np.uint64]:
    """uint64[n]: for token t, output number t of the SplitMix64 stream seeded with `key`."""
    z = np.array(tokens, dtype=np.uint64)  # a copy: everything below works in place and wraps modulo 2**64
    z *= np.uint64(_GAMMA)
    z += np.uint64((key + _GAMMA) & _MASK)
    z ^= z >> np.uint64(30)
    z *= np.uint64(_FIRST)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_SECOND)
    z ^= z >> np.uint64(31)
    return z


def uniform_of(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """float64[n] in [UNIFORM_MIN, UNIFORM_MAX], increasing with the hash."""
    odd: npt.NDArray[np.uint64] = (hashes >> np.uint64(11)) | np.uint64(1)
    return odd.astype(np.float64) * UNIFORM_MIN


def uniform(key: int, tokens: IntTokens) -> npt.NDArray[np.float64]:
    """float64[n], uniform on the open interval (0, 1)."""
    return uniform_of(hash64(key, tokens))


def gumbel_of(uniforms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """float64[n]: -log(-log(u)), the standard Gumbel quantile."""
    noise = np.log(uniforms)
    np.negative(noise, out=noise)
    np.log(noise, out=noise)
    return np.negative(noise, out=noise)


def gumbel(key: int, tokens: IntTokens) -> npt.NDArray[np.float64]:
    """float64[n] of standard Gumbel noise in [GUMBEL_MIN, GUMBEL_MAX].

    argmax(log p + gumbel) draws from p; the k largest of log q + gumbel draw k tokens from q without replacement.
    """
    return gumbel_of(uniform(key, tokens))


def hash_floor(gumbel: float) -> np.uint64:
    """A hash whose noise exceeds `gumbel` (above -700) is at least this; a few hashes just below it may be, too."""
    grid = int(math.exp(-math.exp(-gumbel)) * 2**53)
    floor: np.uint64 = np.uint64(max(0, grid - 8) * 2**11)
    return floor
