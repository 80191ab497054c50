"""Pinned nodes: those that a drafter wants for the sake of their rows, and only all together.

`pinned` is bool[n], or bool[0] where no node is. Knows no trees, only their arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int32]

# One array for all trees without pins, since most trees have none and are made every round.
NONE_PINNED: BoolArray = np.zeros(0, np.bool_)
NONE_PINNED.flags.writeable = False


def none_pinned() -> BoolArray:
    return NONE_PINNED


def pins(pinned: list[bool]) -> BoolArray:
    return np.array(pinned, dtype=np.bool_) if any(pinned) else NONE_PINNED


def check_pins(pinned: BoolArray, parents: list[int]) -> None:
    """Raise ValueError unless `pinned` has the right form, and every pinned node a pinned parent or the root."""
    n = len(parents)
    if not isinstance(pinned, np.ndarray) or pinned.dtype != np.bool_ or pinned.shape not in ((0,), (n,)):
        raise ValueError(f"pinned must be bool[{n}] or bool[0]")
    known: list[bool] = [*pinned.tolist(), True]  # index -1, the root's
    if any(pin and not known[parent] for pin, parent in zip(known, parents, strict=False)):
        raise ValueError("what a pinned node hangs from must be pinned too")


def fit(pinned: BoolArray, parents: IntArray, max_nodes: int, max_leaves: int) -> bool:
    """Do the pinned nodes alone keep to both limits?"""
    nodes = np.flatnonzero(pinned)
    inner = set(parents[nodes].tolist())
    inner.discard(-1)
    return len(nodes) <= max_nodes and len(nodes) - len(inner) <= max_leaves


def kept(pinned: BoolArray, places: npt.NDArray[np.intp] | slice) -> BoolArray:
    """The pins of the nodes at `places`."""
    if not len(pinned):
        return NONE_PINNED
    left: BoolArray = pinned[places]
    return left if left.any() else NONE_PINNED
