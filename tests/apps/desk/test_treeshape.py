from __future__ import annotations

import random

from apps.desk.treeshape import Node, nodes_of, shown, spoken
from apps.desk.turn import Drafted
from tests.apps.desk.made import drafted, report


def test_a_chain_is_one_column() -> None:
    assert nodes_of(drafted((-1, 0, 1), (0, 1))) == (
        Node("·n0", -1, 1, 0, True),
        Node("·n1", 0, 2, 0, True),
        Node("·n2", 1, 3, 0, False),
    )


def test_branches_stand_side_by_side() -> None:
    nodes = nodes_of(drafted((-1, -1, 0, 0, 1), (1, 4)))
    assert [(node.depth, node.column) for node in nodes] == [(1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert [node.accepted for node in nodes] == [False, True, False, False, True]


def test_no_two_nodes_of_any_tree_share_a_place() -> None:
    draw = random.Random(1)
    for _ in range(200):
        parents = tuple(draw.randrange(-1, node) for node in range(draw.randrange(1, 30)))
        nodes = nodes_of(drafted(parents))
        assert len({(node.depth, node.column) for node in nodes}) == len(nodes)
        for node in nodes:
            above = nodes[node.parent] if node.parent >= 0 else None
            assert node.depth == (above.depth + 1 if above else 1)
            assert node.column >= (above.column if above else 0)


def test_blanks_are_made_visible() -> None:
    assert shown(" a\tb\n") == "·a→b⏎"
    assert shown("") == "∅"
    assert shown("a" * 40) == "a" * 11 + "…"


def test_what_is_heard_is_what_is_seen() -> None:
    assert spoken(drafted((-1, 0, 1), (0, 1))) == "3 tokens guessed, 3 deep; 2 accepted: ·n0 ·n1"
    assert spoken(drafted((-1,), ())) == "1 tokens guessed, 1 deep; none accepted"
    assert spoken(Drafted(report(1), ())) == "nothing was drafted"
    assert spoken(None) == "nothing was drafted"
