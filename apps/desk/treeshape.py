"""Where the nodes of a draft go in a picture: a row for each depth, a column for each branch. Draws nothing."""

from __future__ import annotations

from dataclasses import dataclass

from .turn import Drafted

# Letters of a token that a node shows.
LABEL_LENGTH = 12
_MARKS = str.maketrans({" ": "·", "\n": "⏎", "\t": "→"})


@dataclass(frozen=True, slots=True)
class Node:
    """parent: index of a node, -1 for the last committed token. depth: 1 for a first guess. column: counted from the
    left, a first child keeping that of its parent.
    """

    text: str
    parent: int
    depth: int
    column: int
    accepted: bool


def nodes_of(drafted: Drafted) -> tuple[Node, ...]:
    """In the order of the tree, parents first."""
    parents = drafted.report.tree_parents
    path = set(drafted.report.path)
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    columns = _columns(parents)
    return tuple(
        Node(shown(text), parents[node], depths[node], columns[node], node in path)
        for node, text in enumerate(drafted.labels)
    )


def shown(text: str) -> str:
    """Blanks made visible, long tokens cut; a token without text is one that only completes a letter."""
    marked = text.translate(_MARKS) or "∅"
    return marked if len(marked) <= LABEL_LENGTH else marked[: LABEL_LENGTH - 1] + "…"


def spoken(drafted: Drafted | None) -> str:
    """The same for who cannot see it."""
    if drafted is None or not drafted.labels:
        return "nothing was drafted"
    nodes = nodes_of(drafted)
    accepted = [node.text for node in nodes if node.accepted]
    said = f"{len(accepted)} accepted: {' '.join(accepted)}" if accepted else "none accepted"
    return f"{len(nodes)} tokens guessed, {max(node.depth for node in nodes)} deep; {said}"


def _columns(parents: tuple[int, ...]) -> list[int]:
    """Depth first, so that branches never cross: each first child below its parent, each other one in a new column."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        children.setdefault(parent, []).append(node)
    columns = [0] * len(parents)
    n_columns = 0
    waiting = [(node, place == 0) for place, node in reversed(list(enumerate(children.get(-1, []))))]
    while waiting:
        node, is_first = waiting.pop()
        n_columns += not is_first
        columns[node] = n_columns
        waiting += [(child, place == 0) for place, child in reversed(list(enumerate(children.get(node, []))))]
    return columns
