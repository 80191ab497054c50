"""A drafter that comes late proposes nothing before, and then what it would have proposed from the start."""

from __future__ import annotations

import pytest

from edgespec.draft.late import LateDrafter
from edgespec.draft.model import ModelDrafter
from edgespec.draft.trunk import Trunk
from edgespec.errors import EngineFailure
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import Drafter, Plan
from edgespec.spec.tree import DraftTree, chain
from tests.draft.fake import NoRows, commit_of, prompt_of
from tests.draft.near_draft import good

LAW = Law(SamplingSettings(temperature=0.7, seed=8))
PLAN = Plan(4)
NODES = prompt_of([])


def drafter() -> ModelDrafter:
    return ModelDrafter(Trunk(good()), LAW, lambda: 0.0)


class Shelf:
    def __init__(self) -> None:
        self.has: Drafter | None = None
        self.n_asked = 0

    def find(self) -> Drafter | None:
        self.n_asked += 1
        return self.has


@pytest.mark.parametrize("n_without", range(5))
def test_it_proposes_as_if_it_had_seen_the_text_from_the_start(n_without: int) -> None:
    shelf, twin = Shelf(), drafter()
    late = LateDrafter("late", shelf.find)
    for one in (late, twin):
        one.begin(0, prompt_of([1, 2, 3]))
        one.begin(1, prompt_of([4]))
        one.end(1)
    for n in range(6):
        if n == n_without:
            shelf.has = drafter()
        proposed, expected = late.propose(0, PLAN), twin.propose(0, PLAN)
        if n < n_without:
            assert not len(proposed)
            assert late.behind(0) == 0
        else:
            assert proposed.tokens.tolist() == expected.tokens.tolist()
            assert late.behind(0) == twin.behind(0)
        late.anticipate(0, chain([1], [0.5]))
        for one in (late, twin):
            one.observe(0, commit_of([n % 3, 5]), NoRows(), NODES)
    assert shelf.n_asked == 2 * n_without + 1  # it is not looked for again
    late.begin(2, prompt_of([6, 1]))
    twin.begin(2, prompt_of([6, 1]))
    assert late.behind(2) == twin.behind(2)
    late.end(0)
    with pytest.raises(KeyError):
        late.propose(0, PLAN)


def test_what_keeps_it_from_coming_is_raised_and_it_is_looked_for_again() -> None:
    came: list[Drafter] = []

    def find() -> Drafter | None:
        if not came:
            raise EngineFailure("the draft", "there is none", "wait")
        return came[0]

    late = LateDrafter("late", find)
    late.begin(0, prompt_of([1, 2]))
    for ask in (lambda: late.propose(0, PLAN), lambda: late.behind(0)):
        with pytest.raises(EngineFailure, match="there is none"):
            ask()
    came.append(drafter())
    twin = drafter()
    twin.begin(0, prompt_of([1, 2]))
    proposed: DraftTree = late.propose(0, PLAN)
    assert proposed.tokens.tolist() == twin.propose(0, PLAN).tokens.tolist()
