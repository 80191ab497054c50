"""Random draft trees for property tests, and the plain way to read and compare them."""

from __future__ import annotations

from hypothesis import strategies as st

from edgespec.spec.tree import DraftTree, tree_of

N_VOCAB = 4
Path = tuple[int, ...]


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 10, siblings_differ: bool = False) -> DraftTree:
    """Any tree, with equal survivals and, unless `siblings_differ`, siblings that carry the same token."""
    parents: list[int] = []
    tokens: list[int] = []
    survival: list[float] = []
    for node in range(draw(st.integers(0, max_nodes))):
        parent, token = draw(st.integers(-1, node - 1)), draw(st.integers(0, N_VOCAB - 1))
        if siblings_differ and (parent, token) in zip(parents, tokens, strict=True):
            break
        parents.append(parent)
        tokens.append(token)
        survival.append(
            (survival[parent] if parent >= 0 else 1.0) * draw(st.sampled_from([1.0, 0.75, 0.5, 0.5, 0.25, 0.0]))
        )
    sources = [draw(st.integers(0, 255)) for _ in tokens]
    return tree_of(tokens, parents, survival, sources, pinned=draw(_pins(parents)))


@st.composite
def _pins(draw: st.DrawFn, parents: list[int]) -> list[bool]:
    """Mostly none; else some nodes, each with all that it hangs from."""
    share = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    pinned: list[bool] = []
    for parent in parents:
        pinned.append((parent < 0 or pinned[parent]) and draw(st.integers(0, 3)) < share)
    return pinned


def line(tree: DraftTree, node: int) -> list[int]:
    """The nodes from the root down to `node`."""
    parent = int(tree.parents[node])
    return [*(line(tree, parent) if parent >= 0 else []), node]


def path(tree: DraftTree, node: int) -> Path:
    return tuple(int(tree.tokens[n]) for n in line(tree, node))


def same(one: DraftTree, two: DraftTree) -> bool:
    return all(
        getattr(one, name).tolist() == getattr(two, name).tolist()
        and getattr(one, name).dtype == getattr(two, name).dtype
        for name in ("tokens", "parents", "survival", "sources", "pinned")
    )


def is_pinned(tree: DraftTree, node: int) -> bool:
    return bool(len(tree.pinned) and tree.pinned[node])
