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
from edgespec.tune.decide import clearly_slower, finalists, without_echoes
from edgespec.tune.limits import Limits
from edgespec.tune.passes import NotNow, Passes
from edgespec.tune.protocol import Order, Report, Task
from edgespec.tune.sheet import opening_of


@dataclass(frozen=True, slots=True)
class Progress:
    """done: 0 to 1. doing: what is measured now, in words."""

    done: float
    doing: str


class Search:
    """passes: what fills the sheet, and knows which settings failed. slower: candidates that the first passes ruled
    out.
    """

    def __init__(
        self,
        passes: Passes,
        tried: Seq[LlamaSettings],
        limits: Limits,
        on_progress: Callable[[Progress], None],
        checkpoint: Callable[[], None],
    ) -> None:
        self.sheet = passes.sheet
        self.passes = passes
        self.slower: set[LlamaSettings] = set()
        self._tried = tried
        self._limits = limits
        self._is_inherited = bool(passes.sheet.contexts)
        self._on_progress = on_progress
        self._done = 0.0
        self._checkpoint = checkpoint

    # -- the stages ---------------------------------------------------------------------------------------------

    def coarse(self, kept: LlamaSettings, allowed: Collection[LlamaSettings]) -> None:
        """Every candidate, opening by opening: plain passes at each context, then those `allowed` at the other coarse
        widths as far as the opening's share of the time goes. Whoever is clearly slower at the first passes is left
        there, but for `kept`, whose plain passes are measured in any case, the one at the short context first of all:
        the others are told in relation to it.
        """
        openings = list(dict.fromkeys(map(opening_of, self._tried)))
        n_lost = -1
        while n_lost != self.passes.n_lost:  # else nothing is missing any more
            n_lost = self.passes.n_lost
            if not self._coarse_round(openings, kept, allowed):
                return

    def _coarse_round(
        self, openings: Seq[LlamaSettings], kept: LlamaSettings, allowed: Collection[LlamaSettings]
    ) -> bool:
        """False when the time is over."""
        if not self._settle_contexts(openings):
            return False
        if not self._compare_first(kept, allowed):
            return False
        for number, opening in enumerate(openings):
            self._tell(plan.COARSE_SHARE * number / len(openings), f"way {number + 1} of {len(openings)} to load it")
            share = plan.COARSE_SHARE * (number + 1) / len(openings)
            if not self.passes.guarded(opening, partial(self._coarse_of, opening, kept, allowed, share)):
                return False
            self._checkpoint()
            self._look_for_longer(opening)
        return True

    def _compare_first(self, kept: LlamaSettings, allowed: Collection[LlamaSettings]) -> bool:
        """A plain pass of what is open already, so that there is something to choose, and of `kept`, however little
        time that leaves to the others.
        """
        living = [one for one in self._tried if one in allowed and self.passes.lives(one)]
        for one in (*living[:1], kept) if self.sheet.contexts else ():
            measure = partial(self.passes.need, one, self.sheet.contexts[0], 1, 1, plan.SHORT_SHARE)
            if not self.passes.guarded(opening_of(one), measure):
                return False
        return True

    def _coarse_of(
        self, opening: LlamaSettings, kept: LlamaSettings, allowed: Collection[LlamaSettings], share: float
    ) -> None:
        with_it = [one for one in self._tried if opening_of(one) == opening]
        for context in self.sheet.contexts:
            for one in with_it:
                if one == kept or one not in self.slower:
                    self.passes.need(one, context, 1, 1, plan.COARSE_SHARE)
            self._drop_slower(allowed)
            with suppress(NotNow):
                self._widen([one for one in with_it if one in allowed and one not in self.slower], context, share)

    def _widen(self, ones: Seq[LlamaSettings], context: int, share: float) -> None:
        for one in ones:
            for width in self._widths(plan.COARSE):
                self.passes.need(one, context, width, 1, share)

    def _widths(self, widths: Seq[int]) -> list[int]:
        return [width for width in widths if width <= self.sheet.widest]

    def _drop_slower(self, allowed: Collection[LlamaSettings]) -> None:
        known = {one: self.sheet.plain(one) for one in self._tried}
        self.slower = clearly_slower({one: plain[0] for one, plain in known.items() if plain}, allowed)

    def curves(self, allowed: Seq[LlamaSettings]) -> list[LlamaSettings]:
        """The full curve of the best half of those allowed; returns the survivors, fastest first.

        If none survives, the next call tries the others, also those that were slower than the dead.
        """
        self._drop_slower([one for one in allowed if self.passes.lives(one)])
        plain = {one: self.sheet.plain(one) for one in allowed if one not in self.slower and self.passes.lives(one)}
        chosen = self._affordable(plan.half_of(without_echoes(finalists(plain)), len(plain)))
        together = len(set(map(opening_of, chosen))) <= self.passes.children.most
        begun = self._limits.now() / self._limits.cap_seconds
        self._pay(plan.visits(chosen, self.sheet.contexts, together, begun))
        return [one for one in chosen if self.passes.lives(one)]

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
            self._tell(
                plan.READING_SHARE if visit.share == 1.0 else done, f"full curve at {visit.context} tokens of context"
            )
            if not self.passes.guarded(opening_of(visit.one), partial(self._sweep, visit)):
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
        if not missing or self.passes.children.is_open(opening_of(one)):
            return sum(missing)
        return sum(missing) + self.passes.children.slowest_open + self.sheet.contexts[-1] * self.passes.token_seconds

    def _sweep(self, visit: plan.Visit) -> None:
        widths = self._widths(plan.BY_USE)
        for width in widths if visit.sweep % 2 == 0 else reversed(widths):  # a machine that warms up favours no end
            self.passes.need(visit.one, visit.context, width, visit.sweep + 1, visit.share)

    def alone(self, one: LlamaSettings) -> None:
        """The curve with one thread, at the coarse widths."""
        single = replace(one, n_threads=1, n_threads_batch=0)
        self._tell(plan.SHORT_SHARE, "curve with one thread")

        def measure() -> None:
            for context in self.sheet.contexts:
                for width in self._widths(plan.COARSE):
                    self.passes.need(single, context, width, 1, plan.ALONE_SHARE)

        self.passes.guarded(opening_of(one), measure)

    def reading(self, one: LlamaSettings, chunks: Seq[int]) -> dict[int, float]:
        """Seconds of reading the same text in chunks of each size; {} when there is no time for all of them."""
        found: dict[int, float] = {}
        n_tokens = min(max(chunks), one.n_ctx - plan.FULL[-1])
        self._tell(plan.ALONE_SHARE, "reading speed")

        def measure() -> None:
            if 3 * len(chunks) * n_tokens * self.passes.token_seconds > self._limits.left(plan.READING_SHARE):
                raise NotNow
            for chunk in (*chunks, *reversed(chunks)):
                seconds = self._read_anew(one, n_tokens, chunk)
                found[chunk] = min(seconds, found.get(chunk, seconds))

        return found if self.passes.guarded(opening_of(one), measure) else {}

    def _read_anew(self, one: LlamaSettings, n_tokens: int, chunk: int) -> float:
        opening, n_threads = opening_of(one), one.batch_threads
        self.passes.ask(opening, Order(Task.READ, 1, n_threads))
        seconds = 0.0
        while self.passes.length(opening) < n_tokens:
            seconds += self.passes.ask(opening, Order(Task.READ, n_tokens, n_threads, chunk)).seconds
        return seconds + self.passes.ask(opening, Order(Task.PASS, 1, n_threads)).seconds  # a GPU is done only now

    def classes(self, one: LlamaSettings, budget_seconds: float, most_seconds: float) -> tuple[tuple[int, ...], ...]:
        """Classes of bitwise-equal widths; () when they could not be compared in full. Does not count towards the cap,
        but takes no longer than `most_seconds` and twice what loading has taken.
        """
        found: list[Report] = []
        order = Order(Task.CLASSES, n_threads=one.n_threads, n_batch=one.batch_threads, seconds=budget_seconds)
        self._tell(plan.PROBING_SHARE, f"widths whose passes agree bit for bit, {most_seconds:.0f} s at most")
        self._limits.grant(most_seconds + 2.0 * self.passes.children.slowest_open)
        opening = opening_of(one)
        self.passes.guarded(opening, lambda: found.append(self.passes.ask(opening, order, most_seconds)))
        return found[0].classes if found else ()

    def _tell(self, done: float, doing: str) -> None:
        """What is measured again takes nothing from what was done."""
        self._done = max(self._done, done)
        self._on_progress(Progress(self._done, doing))

    # -- at which contexts --------------------------------------------------------------------------------------

    def _settle_contexts(self, openings: Seq[LlamaSettings]) -> bool:
        """Where the sheet has no contexts, by the first opening that loads. False when the time is over."""
        if self._is_inherited:
            self._look_for_longer(openings[0])
        for opening in openings:
            if not self.sheet.contexts and not self.passes.guarded(opening, partial(self._plan, opening)):
                return False
        return True

    def _plan(self, opening: LlamaSettings) -> None:
        timed = min(plan.TIMED, opening.n_ctx // 2)
        self.passes.read(opening, timed // 2)
        self.passes.read(opening, timed)
        contexts = plan.plan_contexts(opening.n_ctx, self.passes.token_seconds, self._limits.cap_seconds)
        self.passes.begin(contexts, self.passes.token_seconds)

    def _look_for_longer(self, opening: LlamaSettings) -> None:
        """A search that goes on begins anew where its contexts are shorter than this cap, or the machine as it is now,
        allows. Asked until this run has read something.
        """
        if not self._is_inherited:
            return
        self._is_inherited = not self.passes.token_seconds
        speed = self.passes.token_seconds or self.sheet.token_seconds
        longer = plan.plan_contexts(opening.n_ctx, speed, self._limits.cap_seconds)
        if longer[-1] > self.sheet.contexts[-1]:
            self._is_inherited = False
            self.passes.begin(longer, speed)
