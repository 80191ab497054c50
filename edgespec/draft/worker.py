"""The thread that owns a draft network: takes orders, works ahead between them, reports. Nobody else touches it.

Contract: orders are looked up between any two calls of the network, so cancelled work ends with the call under way. One
sequence has the worker at a time, the one asked last; it changes over to another one where that costs no more than a
chunk of reading each way, or when nobody has asked for the first one for a while. After a failure nothing is done until
a draft is asked for again. Knows no target and no plan.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from edgespec.draft.ahead import Ahead, Branch
from edgespec.draft.growth import Clock
from edgespec.draft.messages import (
    Asked,
    Begun,
    Behind,
    Committed,
    Drafted,
    Ended,
    Failed,
    Order,
    Report,
    Stopped,
    Verified,
)
from edgespec.draft.outcomes import DepthRates
from edgespec.draft.sparse import Float64Array, SparseLaw
from edgespec.draft.trunk import Trunk
from edgespec.spec.ports import SequenceId
from edgespec.spec.step import StepModel
from edgespec.spec.tree import DraftMode

# Drafts that others asked for in a row before the sequence that has the worker must hand it over, whatever that costs.
_PATIENCE_ASKED = 8


@dataclass(slots=True)
class _Text:
    """n_accepted: of the last commit, by which the draft behind it is known."""

    tokens: list[int]
    law: SparseLaw
    epoch: int
    n_accepted: int = 0


class DraftWorker:
    """Starts its thread at once. `factory` makes the network, in that thread; rows_at_once: as for `Ahead`.

    Orders may be given from one thread, reports taken from one. is_open: the network has been made. busy_since: when
    the call under way began, None between calls. n_steps: calls that ended well.
    """

    def __init__(self, factory: Callable[[], StepModel], clock: Clock, rows_at_once: int = 1) -> None:
        self.reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self.is_open = False
        self.busy_since: float | None = clock()
        self.n_steps = 0
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._n_orders = self._n_obeyed = 0
        self._is_waiting = False
        self._factory = factory
        self._clock = clock
        self._rows_at_once = rows_at_once
        self._rates = DepthRates()
        self._texts: dict[SequenceId, _Text] = {}
        self._focus: SequenceId = -1
        self._ahead: Ahead | None = None
        self._n_behind = 0
        self._asked_by_others = 0
        self._thread = threading.Thread(target=self._live, daemon=True, name="edgespec-draft")
        self._thread.start()

    def order(self, order: Order) -> None:
        """Never waits."""
        self._n_orders += 1
        self._orders.put(order)

    @property
    def is_quiet(self) -> bool:
        """Nothing is left to do until the next order; for the thread that gives them."""
        return self._is_waiting and self._n_obeyed == self._n_orders

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, which it does after Stopped as soon as its call returns."""
        self._thread.join(seconds)

    def _live(self) -> None:
        try:
            with closing(self._factory()) as step:
                self._serve(Trunk(step))
        except Exception as error:  # whatever a network's code raises must not end the answer
            self.reports.put(Failed(-1, -1, error))

    def _serve(self, trunk: Trunk) -> None:
        self.busy_since = None
        self.is_open = True
        while True:
            order = self._next_order()
            if isinstance(order, Stopped):
                return
            try:
                if order is None:
                    self._work()
                else:
                    self._obey(order, trunk)
            except Exception as error:  # as in _live
                self.reports.put(Failed(self._focus, self._epoch, error))
                self._ahead = None
            self.busy_since = None
            self._n_obeyed += order is not None

    def _next_order(self) -> Order | None:
        """The next order, or None where there is none and something is left to do."""
        if self._ahead is None or not self._ahead.has_work:
            self._is_waiting = True
            order = self._orders.get()
            self._is_waiting = False
            return order
        try:
            return self._orders.get_nowait()
        except queue.Empty:
            return None

    def _work(self) -> None:
        assert self._ahead is not None
        self.busy_since = self._clock()
        grown = self._ahead.step(self._may_go_on)
        self.n_steps += 1
        if self._n_behind:
            self._tell_behind()
        self._report(grown)

    def _may_go_on(self) -> bool:
        """Asked between two calls while a text is read."""
        self.busy_since = self._clock()
        self.n_steps += 1
        self._tell_behind()
        return self._orders.empty()

    @property
    def _epoch(self) -> int:
        """Of the sequence that has the worker."""
        return self._texts[self._focus].epoch if self._focus in self._texts else -1

    def _tell_behind(self) -> None:
        assert self._ahead is not None
        self._n_behind = self._ahead.n_behind
        self.reports.put(Behind(self._focus, self._epoch, self._n_behind))

    def _obey(self, order: Order, trunk: Trunk) -> None:
        if isinstance(order, Begun):
            law = SparseLaw(order.law, DraftMode.COUPLED, _no_draw)
            self._texts[order.sequence] = _Text(list(order.prompt), law, order.epoch)
            self._begin(order.sequence, trunk)
        elif isinstance(order, Ended):
            self._texts.pop(order.sequence, None)
            if order.sequence == self._focus:
                self._focus, self._ahead = -1, None
        elif isinstance(order, Asked):
            self._ask(order, trunk)
        elif isinstance(order, Verified):
            self._texts[order.sequence].epoch = order.epoch
            if order.sequence == self._focus and self._ahead is not None:
                self._report(self._ahead.verify(order.draft, order.wanted))
        elif isinstance(order, Committed):
            self._commit(order)

    def _begin(self, sequence: SequenceId, trunk: Trunk) -> None:
        if self._focus in (-1, sequence):
            self._take_up(sequence, trunk)
        else:
            self._tell_cost(sequence, trunk)

    def _ask(self, order: Asked, trunk: Trunk) -> None:
        if order.sequence == self._focus:
            self._asked_by_others = 0
        else:
            self._asked_by_others += 1
            n_behind = self._tell_cost(order.sequence, trunk)
            if n_behind and self._focus >= 0 and self._asked_by_others <= _PATIENCE_ASKED:
                return
        if order.sequence != self._focus or self._ahead is None:
            self._take_up(order.sequence, trunk)
        assert self._ahead is not None
        self._ahead.ask(order.wanted)
        self._tell_behind()
        self._report([self._ahead.root])

    def _tell_cost(self, sequence: SequenceId, trunk: Trunk) -> int:
        """Tokens to read first; 0 if changing over to it, and back again, takes one chunk at most."""
        there = trunk.behind(self._texts[sequence].tokens)
        back = len(self._texts[self._focus].tokens) if self._focus in self._texts else 0
        n_behind = 0 if max(there, back) <= trunk.limits.max_chunk else max(1, there)
        self.reports.put(Behind(sequence, self._texts[sequence].epoch, n_behind))
        return n_behind

    def _take_up(self, sequence: SequenceId, trunk: Trunk) -> None:
        text = self._texts[sequence]
        self._focus, self._asked_by_others = sequence, 0
        self._ahead = Ahead(trunk, text.law, text.tokens, self._rates, self._rows_at_once, text.n_accepted)
        self._tell_behind()

    def _commit(self, order: Committed) -> None:
        text = self._texts[order.sequence]
        text.epoch, text.n_accepted = order.epoch, order.n_accepted
        if order.sequence == self._focus and self._ahead is not None:
            self._ahead.commit(order.n_accepted, order.tokens)
            self._report([self._ahead.root])
        else:
            text.tokens += order.tokens

    def _report(self, branches: list[Branch]) -> None:
        """What has become of these branches. One without tokens only counts when nothing more will come of it."""
        assert self._ahead is not None
        for one in branches:
            is_finished = self._ahead.is_finished(one)
            if one.tokens or is_finished:
                tokens, survival = tuple(one.tokens), tuple(one.survival)
                self.reports.put(
                    Drafted(self._focus, self._epoch, one.n_accepted, one.token, tokens, survival, is_finished)
                )


def _no_draw(p: Float64Array) -> int:  # noqa: ARG001  # fills a socket
    raise AssertionError("a coupled draft draws nothing")
