"""Single measurements of an opening's child: reads, passes, and what is to be done when one fails or is disturbed.

Fills a sheet. Knows no stage of the search and does not decide what is worth measuring.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgespec.backend.settings import LlamaSettings
from edgespec.tune import plan
from edgespec.tune.children import ChildFailed, ChildHung, Children
from edgespec.tune.limits import Limits, OutOfTime
from edgespec.tune.protocol import Order, Report, Task
from edgespec.tune.sheet import Sheet, line_of, opening_of
from edgespec.tune.watch import Watch, Window

# Tokens read per order: a caller who wants the machine back, or the cap, ends a child in the middle of one.
READ_CHUNK = 128
# Lines of an opening whose passes may hang before it is given up: each costs a long wait.
MOST_HUNG = 2


class NotNow(Exception):
    """The stage's time does not allow this measurement."""


class Passes:
    """fates: why an opening was given up. hung: lines whose passes never ended, and the words for it. token_seconds: of
    reading one token; 0 until something was read. n_lost: times that were taken back.

    What was timed in a disturbed window (see `watch`) is taken back and timed again.
    """

    def __init__(self, sheet: Sheet, reading_threads: int, children: Children, limits: Limits, watch: Watch) -> None:
        self.sheet = sheet
        self.fates: dict[LlamaSettings, str] = dict(sheet.died)
        self.hung: dict[LlamaSettings, str] = {}
        self.token_seconds = 0.0
        self.n_lost = 0
        self._threads = reading_threads
        self.children = children
        self._limits = limits
        self._watch = watch
        self._unjudged: list[tuple[LlamaSettings, int, int, float]] = []
        self._length: dict[LlamaSettings, int] = {}
        self._warm: tuple[LlamaSettings, int] | None = None

    def begin(self, contexts: tuple[int, ...], token_seconds: float) -> None:
        """Measure at these contexts; what was measured at others is lost."""
        self.n_lost += bool(self.sheet.contexts)
        self._unjudged.clear()
        self.sheet.begin(contexts, token_seconds)

    def length(self, opening: LlamaSettings) -> int:
        """Tokens in its child's cache after the last order."""
        return self._length[opening]

    def lives(self, one: LlamaSettings) -> bool:
        return opening_of(one) not in self.fates and not {line_of(one, 1), line_of(one, 2)} & self.hung.keys()

    def guarded(self, opening: LlamaSettings, measure: Callable[[], None]) -> bool:
        """Measure on an opening; a failing child is that opening's end alone, or, where a pass hung, that of a number
        of threads. Measured again as long as something is missing. False when the time is over.
        """
        n_before = -1
        while opening not in self.fates and n_before != self.n_lost + len(self.hung):
            n_before = self.n_lost + len(self.hung)
            try:
                measure()
            except ChildHung:  # noted where it was asked
                pass
            except ChildFailed as failure:
                self.fates[opening] = str(failure)
                if str(failure).startswith("died"):  # the others may go otherwise next time
                    self.sheet.died[opening] = str(failure)
            except (NotNow, OutOfTime):
                return False
        return True

    def need(self, one: LlamaSettings, context: int, width: int, n_times: int, share: float) -> None:
        """Time passes until the sheet has so many, of plain ones a few times as many. Raises NotNow when the stage's
        time would not suffice.
        """
        line, opening = line_of(one, width), opening_of(one)
        while self.lives(one):
            expected = plan.expected_seconds(self.sheet, line, context, width)
            n_samples = n_times * (plan.plain_samples(expected) if width == 1 else 1)
            if self.sheet.count(one, context, width) >= n_samples:
                return
            if expected > self._limits.left(share):
                raise NotNow
            self._bring_to(opening, context, share)
            if self._warm != (line, context) and expected < plan.LONG_SECONDS:
                self.ask(opening, Order(Task.PASS, 1, line.n_threads))
                self._warm = (line, context)
            seconds = self.ask(opening, Order(Task.PASS, width, line.n_threads)).seconds
            self.sheet.add(one, context, width, seconds)
            self._unjudged.append((one, context, width, seconds))
            self._judge()

    def _judge(self) -> None:
        """Times of a disturbed window are taken back, unless so many were disturbed that none of the run are kept."""
        window = self._watch.look()
        if window is Window.DISTURBED and self._watch.is_quiet:
            self._take_back()
        elif window is not Window.OPEN:
            self._unjudged.clear()

    def leave(self) -> None:
        """At the end: take back what the last window disturbed."""
        if not self._watch.ended_quietly():
            self._take_back()

    def _take_back(self) -> None:
        self.n_lost += len(self._unjudged)
        for sample in self._unjudged:
            self.sheet.take_back(*sample)
        self._unjudged.clear()

    def _bring_to(self, opening: LlamaSettings, context: int, share: float) -> None:
        if not self.children.is_open(opening):
            if self.children.slowest_open > self._limits.left(share):
                raise NotNow
            self._length[opening] = 0
        missing = context - self._length.get(opening, 0)
        # Where passes cannot be taken back, each leaves a token behind.
        if missing == 0 or (self.sheet.widest == 1 and -plan.DRIFT <= missing < 0):
            return
        if missing * self.token_seconds > self._limits.left(share):
            raise NotNow
        self.read(opening, context)

    def read(self, opening: LlamaSettings, length: int) -> None:
        """Read to exactly `length` tokens, and note how fast it went."""
        while True:
            before = self._length.get(opening, 0) if self.children.is_open(opening) else 0
            report = self.ask(opening, Order(Task.READ, length, self._threads, READ_CHUNK))
            if report.length > before:
                self.token_seconds = report.seconds / (report.length - before)
            if report.length >= length:
                return

    def ask(self, opening: LlamaSettings, order: Order, patience_seconds: float | None = None) -> Report:
        """Raises ChildFailed, OutOfTime, Stopped, EngineFailure; NotNow for a number of threads that hung before."""
        if order.task is not Task.PASS:
            self._warm = None
        line = replace(opening, n_threads=order.n_threads)
        if line in self.hung and order.task is not Task.READ:
            raise NotNow
        try:
            report = self.children.ask(opening, order, patience_seconds)
        except ChildHung as failure:
            self._note_hung(line, order, str(failure))
            raise
        self._length[opening] = report.length
        self.sheet.widest = report.widest
        return report

    def _note_hung(self, line: LlamaSettings, order: Order, how: str) -> None:
        """Other numbers of threads may do, so a pass that hangs ends its line; all else, and too many, the opening. The
        width probe is no pass that answers need, so that says nothing of either.
        """
        if order.task is Task.CLASSES:
            return
        opening = opening_of(line)
        if order.task is Task.PASS:
            self.hung[line] = how
        if order.task is not Task.PASS or sum(opening_of(one) == opening for one in self.hung) >= MOST_HUNG:
            self.fates[opening] = how
