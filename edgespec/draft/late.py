"""A drafter whose network is not there yet: it proposes nothing until it is, and then is the drafter over it.

Contract: ports.Drafter. What has been committed meanwhile is handed over when the drafter comes, so it knows the text
as if it had seen it from the start. Waits for nothing. What keeps the network from coming is raised from `propose` or
`behind`. Calls for a sequence that has not begun raise KeyError. Does not know how a network is opened.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgespec.spec.ports import Commit, Drafter, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import EMPTY, DraftTree


class LateDrafter:
    """find: the drafter, which needs tokens only, or None while it is still to wait for."""

    needs = Needs.TOKENS

    def __init__(self, name: str, find: Callable[[], Drafter | None]) -> None:
        self.name = name
        self._find = find
        self._found: Drafter | None = None
        self._texts: dict[SequenceId, list[int]] = {}  # of those that the drafter has not begun

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        if self._found is not None:
            self._found.begin(sequence, prompt)
        else:
            self._texts[sequence] = prompt.tolist()

    def behind(self, sequence: SequenceId) -> int:
        """0 while it is not there: nothing would be read."""
        drafter = self._looked_for()
        return 0 if drafter is None else drafter.behind(sequence)

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        drafter = self._looked_for()
        return EMPTY if drafter is None else drafter.propose(sequence, plan)

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        if self._found is not None:
            self._found.anticipate(sequence, tree)

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        if self._found is not None:
            self._found.observe(sequence, commit, rows, nodes)
        else:
            self._texts[sequence] += commit.tokens.tolist()

    def end(self, sequence: SequenceId) -> None:
        self._texts.pop(sequence, None)
        if self._found is not None:
            self._found.end(sequence)

    def _looked_for(self) -> Drafter | None:
        if self._found is None:
            self._found = self._find()
            if self._found is not None:
                texts, self._texts = self._texts, {}
                for sequence, text in texts.items():
                    self._found.begin(sequence, np.array(text, np.int32))
        return self._found
