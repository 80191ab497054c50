from __future__ import annotations

import math

import pytest

from edgespec.exporting.layers import HOPELESS, Cut, Layers, choose_layers
from edgespec.stepmodel.select import Worth, best_length


class Blocks:
    """Each block costs its weight, and its loss its harm; losses multiply."""

    def __init__(self, harms: list[float], weights: list[float], head: float = 0.05) -> None:
        self.harms, self.weights, self.head = harms, weights, head
        self.asked: list[Layers] = []

    def score(self, layers: Layers) -> Worth:
        self.asked.append(layers)
        lost = set(range(len(self.harms))) - set(layers)
        share = (self.head + sum(self.weights[i] for i in layers)) / (self.head + sum(self.weights))
        return Worth(math.prod(1 - self.harms[i] for i in lost), share)


def test_useless_blocks_go_though_each_alone_would_not_pay() -> None:
    """Without one of them a draft is nearly as dear as the target; only without all of them it is cheap."""
    blocks = Blocks([0.5, 0.12, 0.12, 0.12, 0.12, 0.12, 0.12, 0.5], [1.0] * 8, head=1.0)
    path: list[Cut] = []
    found = choose_layers(8, blocks.score, path.append)
    assert found.layers == (0, 7)
    assert found.goodput > 1.05
    assert path[1].goodput == path[0].goodput == 1.0
    assert [len(cut.layers) for cut in path] == list(range(8, 1 - 1, -1))[: len(path)]
    assert found.goodput == max(cut.goodput for cut in path)


def test_where_nothing_pays_all_are_kept() -> None:
    found = choose_layers(6, Blocks([0.4] * 6, [1.0] * 6).score)
    assert (found.layers, found.n_drafted, found.goodput) == ((0, 1, 2, 3, 4, 5), 0, 1.0)


def test_of_two_blocks_the_dearer_goes_first() -> None:
    path: list[Cut] = []
    choose_layers(3, Blocks([0.3, 0.3, 0.3], [1.0, 3.0, 1.0]).score, path.append)
    assert path[1].layers == (0, 2)


def test_a_hopeless_way_is_not_walked_to_its_end() -> None:
    blocks = Blocks([0.5] * 10, [1.0] * 10)
    path: list[Cut] = []
    choose_layers(10, blocks.score, path.append)
    assert path[-1].worth.acceptance < HOPELESS <= path[-2].worth.acceptance
    assert len(blocks.asked) == 1 + 10 + 9


def test_one_block() -> None:
    assert choose_layers(1, Blocks([0.1], [1.0]).score).layers == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_every_point_is_judged_by_its_best_length(seed: int) -> None:
    path: list[Cut] = []
    choose_layers(5, Blocks([0.05 * seed] * 5, [1.0] * 5).score, path.append)
    assert all((cut.n_drafted, cut.goodput) == best_length(cut.worth, 8) for cut in path)
