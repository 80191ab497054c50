"""Which nodes of a tree are worth their place, on plain lists of parents and survival. Knows no tokens and no drafter.

Parents come before children; parent -1 is the root. Survival never grows from parent to child.
"""

from __future__ import annotations

from collections.abc import Collection


def take(
    parents: list[int], survival: list[float], max_nodes: int, max_leaves: int, wanted: Collection[int] = ()
) -> set[int]:
    """The likeliest nodes, greedily, the earlier among equals: none without its parent, no more leaves than allowed.

    `wanted` are taken before all others; they must hold their own parents and keep to both limits.
    """
    # A stable sort keeps parents before their equally likely children.
    taken = set(wanted)
    inner = {parents[node] for node in taken}
    n_leaves = len(taken - inner)
    for node in sorted(range(len(parents)), key=survival.__getitem__, reverse=True):
        parent = parents[node]
        if len(taken) >= max_nodes:
            break
        if node in taken or (parent >= 0 and parent not in taken):
            continue
        # The first child takes over its parent's leaf; at the root, and for every later child, a leaf is added.
        added = 0 if parent >= 0 and parent not in inner else 1
        if n_leaves + added > max_leaves:
            continue
        n_leaves += added
        inner.add(parent)
        taken.add(node)
    return taken


def principal(parents: list[int], survival: list[float], taken: set[int]) -> list[int]:
    """From the root always the likeliest taken child, the earlier among equals, down to a leaf."""
    best: dict[int, int] = {}
    for node in sorted(taken):
        rival = best.get(parents[node])
        if rival is None or survival[node] > survival[rival]:
            best[parents[node]] = node
    branch: list[int] = []
    node = -1
    while node in best:
        node = best[node]
        branch.append(node)
    return branch
