"""What a SAMPLED tree says of itself: the law q that the children of each node were drawn from.

Entry parent + 1 belongs to the children of `parent`, so entry 0 to those of the last committed token; a leaf has None.
A verifier that divides by q is exact only if these are the laws of the draw itself: truncated as it was, renormalised.
"""

from __future__ import annotations

from itertools import pairwise

from edgespec.spec.law import Sparse

Laws = tuple[Sparse | None, ...]

# Sums of a few hundred float64 shares stay far within it.
_ROUNDING = 1e-9


def check_laws(laws: Laws, tokens: list[int], parents: list[int]) -> None:
    """Raise ValueError unless every parent has the law of all its children, and no leaf has one."""
    if len(laws) != len(tokens) + 1:
        raise ValueError(f"a SAMPLED tree of {len(tokens)} nodes needs {len(tokens) + 1} laws, not {len(laws)}")
    children: dict[int, list[int]] = {}
    for token, parent in zip(tokens, parents, strict=True):
        children.setdefault(parent, []).append(token)
    for place, law in enumerate(laws):
        drawn = children.get(place - 1, [])
        if (law is None) != (not drawn):
            raise ValueError(f"node {place - 1} must have a law if and only if it has children")
        if law is not None:
            _check_law(law, drawn)


def _check_law(law: Sparse, drawn: list[int]) -> None:
    ids, p = law.ids.tolist(), law.p.tolist()
    if len(ids) != len(p) or any(low >= high for low, high in pairwise(ids)):
        raise ValueError("the ids of a law must ascend, with one probability each")
    # NaN fails both comparisons.
    if not all(share >= 0.0 for share in p) or not abs(sum(p) - 1.0) <= _ROUNDING:
        raise ValueError("the probabilities of a law must not be negative and must sum to 1")
    shares = dict(zip(ids, p, strict=True))
    if not all(shares.get(token, 0.0) > 0.0 for token in drawn):
        raise ValueError(f"the law of {drawn} cannot draw every one of them")
