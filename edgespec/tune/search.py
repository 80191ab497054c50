"""The search: a coarse round over every candidate, then the full curve of the best, their children asked in turns.

Fills a sheet and asks children; decides by `decide`. What is on the sheet already is not measured again, so a search
that was stopped goes on. Knows no file, no text and no screen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from collections.abc import Sequence as Seq
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from edgespec.backend.settings import LlamaSettings
from edgespec.tune import plan
from edgespec.tune.children import ChildFailed, Children
from edgespec.tune.decide import clearly_slower, finalists, without_echoes
from edgespec.tune.limits import Limits, OutOfTime
from edgespec.tune.protocol import Order, Report, Task
from edgespec.tune.sheet import Sheet, line_of, opening_of

# Tokens read per order: a caller who wants the machine back, or the cap, ends a child in the middle of one.
READ_CHUNK = 128


@dataclass(frozen=True, slots=True)
class Progress:
    """done: 0 to 1. doing: what is measured now, in words."""

    done: float
    doing: str


class NotNow(Exception):
    """The stage's time does not allow this measurement."""


class Search:
    """fates: why an opening was given up. slower: candidates that the first passes ruled out. token_seconds: of reading
    one token; 0 until something was read.
    """

    def __init__(
        self,
        sheet: Sheet,
        tried: Seq[LlamaSettings],
        reading_threads: int,
        children: Children,
        limits: Limits,
        on_progress: Callable[[Progress], None],
        checkpoint: Callable[[], None],
    ) -> None:
        self.sheet = sheet
        self.fates: dict[LlamaSettings, str] = dict(sheet.died)
        self.slower: set[LlamaSettings] = set()
        self.token_seconds = 0.0
        self._tried = tried
        self._threads = reading_threads
        self._children = children
        self._limits = limits
        self._progress = on_progress
        self._checkpoint = checkpoint
        self._length: dict[LlamaSettings, int] = {}
        self._warm: tuple[LlamaSettings, int] | None = None

    # -- the stages ---------------------------------------------------------------------------------------------

    def coarse(self, kept: LlamaSettings, allowed: Collection[LlamaSettings]) -> None:
        """Every candidate, opening by opening: plain passes at each context, then those `allowed` at the other coarse
        widths as far as the opening's share of the time goes. Whoever is clearly slower at the first passes is left
        there, but for `kept`, whose plain passes are measured in any case.
        """
        openings = list(dict.fromkeys(map(opening_of, self._tried)))
        for number, opening in enumerate(openings):
            self._tell(plan.COARSE_SHARE * number / len(openings), f"way {number + 1} of {len(openings)} to load it")
            share = plan.COARSE_SHARE * (number + 1) / len(openings)
            if not self._guarded(opening, partial(self._coarse_of, opening, kept, allowed, share)):
                return
            self._checkpoint()

    def _coarse_of(
        self, opening: LlamaSettings, kept: LlamaSettings, allowed: Collection[LlamaSettings], share: float
    ) -> None:
        if not self.sheet.contexts:
            self._plan(opening)
        with_it = [one for one in self._tried if opening_of(one) == opening]
        for context in self.sheet.contexts:
            for one in with_it:
                if one == kept or one not in self.slower:
                    self._need(one, context, 1, 1, plan.COARSE_SHARE)
            self._drop_slower(allowed)
            with suppress(NotNow):
                self._widen([one for one in with_it if one in allowed and one not in self.slower], context, share)

    def _widen(self, ones: Seq[LlamaSettings], context: int, share: float) -> None:
        for one in ones:
            for width in self._widths(plan.COARSE):
                self._need(one, context, width, 1, share)

    def _widths(self, widths: Seq[int]) -> list[int]:
        return [width for width in widths if width <= self.sheet.widest]

    def _drop_slower(self, allowed: Collection[LlamaSettings]) -> None:
        known = {one: self.sheet.plain(one) for one in self._tried}
        self.slower = clearly_slower({one: plain[0] for one, plain in known.items() if plain}, allowed)

    def curves(self, allowed: Seq[LlamaSettings]) -> list[LlamaSettings]:
        """The full curve of the best half of those allowed; returns the survivors, fastest first.

        If none survives, the next call tries the others, also those that were slower than the dead.
        """
        self._drop_slower([one for one in allowed if self.lives(one)])
        plain = {one: self.sheet.plain(one) for one in allowed if one not in self.slower and self.lives(one)}
        chosen = self._affordable(plan.half_of(without_echoes(finalists(plain)), len(plain)))
        together = len(set(map(opening_of, chosen))) <= self._children.most
        begun = self._limits.now() / self._limits.cap_seconds
        self._pay(plan.visits(chosen, self.sheet.contexts, together, begun))
        return [one for one in chosen if self.lives(one)]

    def fill(self, chosen: Seq[LlamaSettings]) -> None:
        """What the time did not allow of the curves, with what is left of it in the end."""
        for one in chosen:
            self._pay([plan.Visit(one, context, 0, 1.0) for context in reversed(self.sheet.contexts)])

    def _pay(self, visits: Seq[plan.Visit]) -> None:
        over: set[float] = set()
        for number, visit in enumerate(visits):
            if visit.share in over:
                continue
            done = plan.COARSE_SHARE + (plan.SHORT_SHARE - plan.COARSE_SHARE) * number / len(visits)
            self._tell(1.0 if visit.share == 1.0 else done, f"full curve at {visit.context} tokens of context")
            if not self._guarded(opening_of(visit.one), partial(self._sweep, visit)):
                over.add(visit.share)
            self._checkpoint()

    def _affordable(self, ones: Seq[LlamaSettings]) -> list[LlamaSettings]:
        """As many as there is time to measure at the coarse widths at least; never none."""
        left = self._limits.left(plan.SHORT_SHARE)
        taken: list[LlamaSettings] = []
        for one in ones:
            left -= self._first_sweep_seconds(one)
            if taken and left < 0.0:
                break
            taken.append(one)
        return taken

    def _first_sweep_seconds(self, one: LlamaSettings) -> float:
        missing = [
            plan.expected_seconds(self.sheet, one, context, width)
            for context in self.sheet.contexts
            for width in self._widths(plan.COARSE)
            if not self.sheet.count(one, context, width)
        ]
        if not missing or self._children.is_open(opening_of(one)):
            return sum(missing)
        return sum(missing) + self._children.slowest_open + self.sheet.contexts[-1] * self.token_seconds

    def _sweep(self, visit: plan.Visit) -> None:
        widths = self._widths(plan.BY_USE)
        for width in widths if visit.sweep % 2 == 0 else reversed(widths):  # a machine that warms up favours no end
            self._need(visit.one, visit.context, width, visit.sweep + 1, visit.share)

    def alone(self, one: LlamaSettings) -> None:
        """The curve with one thread, at the coarse widths."""
        single = replace(one, n_threads=1, n_threads_batch=0)
        self._tell(plan.SHORT_SHARE, "curve with one thread")

        def measure() -> None:
            for context in self.sheet.contexts:
                for width in self._widths(plan.COARSE):
                    self._need(single, context, width, 1, plan.ALONE_SHARE)

        self._guarded(opening_of(one), measure)

    def reading(self, one: LlamaSettings, chunks: Seq[int]) -> dict[int, float]:
        """Seconds of reading the same text in chunks of each size; {} when there is no time for all of them."""
        found: dict[int, float] = {}
        n_tokens = min(max(chunks), one.n_ctx - plan.FULL[-1])
        self._tell(plan.ALONE_SHARE, "reading speed")

        def measure() -> None:
            if 3 * len(chunks) * n_tokens * self.token_seconds > self._limits.left(plan.READING_SHARE):
                raise NotNow
            for chunk in (*chunks, *reversed(chunks)):
                seconds = self._read_anew(one, n_tokens, chunk)
                found[chunk] = min(seconds, found.get(chunk, seconds))

        return found if self._guarded(opening_of(one), measure) else {}

    def _read_anew(self, one: LlamaSettings, n_tokens: int, chunk: int) -> float:
        opening, n_threads = opening_of(one), one.batch_threads
        self._ask(opening, Order(Task.READ, 1, n_threads))
        seconds = 0.0
        while self._length[opening] < n_tokens:
            seconds += self._ask(opening, Order(Task.READ, n_tokens, n_threads, chunk)).seconds
        return seconds + self._ask(opening, Order(Task.PASS, 1, n_threads)).seconds  # a GPU is done only now

    def classes(self, one: LlamaSettings, budget_seconds: float) -> tuple[tuple[int, ...], ...]:
        """Classes of bitwise-equal widths; () when they could not be looked for."""
        found: list[Report] = []
        order = Order(Task.CLASSES, n_threads=one.batch_threads, seconds=budget_seconds)
        self._tell(plan.READING_SHARE, "widths whose passes agree bit for bit")
        opening = opening_of(one)
        self._guarded(opening, lambda: found.append(self._ask(opening, order, 10.0 * budget_seconds)))
        return found[0].classes if found else ()

    # -- single measurements ------------------------------------------------------------------------------------

    def _guarded(self, opening: LlamaSettings, measure: Callable[[], None]) -> bool:
        """Measure on an opening; a failing child is that opening's end alone. False when the time is over."""
        if opening in self.fates:
            return True
        try:
            measure()
        except ChildFailed as failure:
            self.fates[opening] = str(failure)
            if str(failure).startswith("died"):  # the others may go otherwise next time
                self.sheet.died[opening] = str(failure)
        except (NotNow, OutOfTime):
            return False
        return True

    def _tell(self, done: float, doing: str) -> None:
        self._progress(Progress(done, doing))

    def lives(self, one: LlamaSettings) -> bool:
        return opening_of(one) not in self.fates

    def _plan(self, opening: LlamaSettings) -> None:
        timed = min(plan.TIMED, opening.n_ctx // 2)
        self._read(opening, timed // 2)
        self._read(opening, timed)
        cap = self._limits.cap_seconds
        self.sheet.contexts = plan.plan_contexts(opening.n_ctx, self.token_seconds, cap)

    def _need(self, one: LlamaSettings, context: int, width: int, n_times: int, share: float) -> None:
        """Time passes until the sheet has so many, of plain ones a few times as many. Raises NotNow when the stage's
        time would not suffice.
        """
        line, opening = line_of(one, width), opening_of(one)
        while True:
            expected = plan.expected_seconds(self.sheet, line, context, width)
            n_samples = n_times * (plan.plain_samples(expected) if width == 1 else 1)
            if self.sheet.count(one, context, width) >= n_samples:
                return
            if expected > self._limits.left(share):
                raise NotNow
            self._bring_to(opening, context, share)
            if self._warm != (line, context) and expected < plan.LONG_SECONDS:
                self._ask(opening, Order(Task.PASS, 1, line.n_threads))
                self._warm = (line, context)
            seconds = self._ask(opening, Order(Task.PASS, width, line.n_threads)).seconds
            self.sheet.add(one, context, width, seconds)

    def _bring_to(self, opening: LlamaSettings, context: int, share: float) -> None:
        if not self._children.is_open(opening):
            if self._children.slowest_open > self._limits.left(share):
                raise NotNow
            self._length[opening] = 0
        missing = context - self._length.get(opening, 0)
        # Where passes cannot be taken back, each leaves a token behind.
        if missing == 0 or (self.sheet.widest == 1 and -plan.DRIFT <= missing < 0):
            return
        if missing * self.token_seconds > self._limits.left(share):
            raise NotNow
        self._read(opening, context)

    def _read(self, opening: LlamaSettings, length: int) -> None:
        """Read to exactly `length` tokens, and note how fast it went."""
        while True:
            before = self._length.get(opening, 0) if self._children.is_open(opening) else 0
            report = self._ask(opening, Order(Task.READ, length, self._threads, READ_CHUNK))
            if report.length > before:
                self.token_seconds = report.seconds / (report.length - before)
            if report.length >= length:
                return

    def _ask(self, opening: LlamaSettings, order: Order, patience_seconds: float | None = None) -> Report:
        if order.task is not Task.PASS:
            self._warm = None
        report = self._children.ask(opening, order, patience_seconds)
        self._length[opening] = report.length
        self.sheet.widest = report.widest
        return report
