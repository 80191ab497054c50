"""Within which pass widths and thread counts a model's rows are bit for bit the same: what exact answers keep to.

Probed in a cache of its own, once per model, build, machine and settings, and remembered, but for what other programs
cut short. No probe takes much longer than LIMIT_FACTOR * BUDGET_SECONDS of `edgespec.backend.widths`, come what may.
Runs in the worker's thread; raises what the target raises when it is interrupted, and begins anew the next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgespec.backend import machine
from edgespec.backend.cores import CoreReader, CoreUse
from edgespec.backend.probe import model_fingerprint
from edgespec.backend.timer import Clock
from edgespec.backend.widths import N_TEXT, UNCOMPARED, Classes, best_class, compare_threads, probe_classes
from edgespec.config import cache_dir
from edgespec.engine.choosing import tuned_as
from edgespec.engine.levels import ladder
from edgespec.errors import NotEnoughMemory
from edgespec.events import Notice
from edgespec.records import Records
from edgespec.spec.ports import IntArray, Target
from edgespec.text.vocab import Vocabulary
from edgespec.tune.tuning import Tuning
from edgespec.tune.watch import TOLERATED_CORES

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget

Notify = Callable[[Notice], None]
Use = Callable[[], CoreUse]

# Exact answers are then decoded without drafts.
PLAIN_ONLY: Classes = UNCOMPARED
# Read by the width probe, over and over. Any ordinary prose will do; it only has to be the same every time.
PROBE_TEXT = (
    "The harbour was quiet before dawn. Two fishermen mended a net by lamplight while the tide turned, and the older "
    "one counted: 17 floats, 3 hooks, 240 metres of line. "
    "Later, def count(items): return sum(1 for _ in items) would do it. "
)


class SameBits:
    """tuning: made with the settings that run, else None; the class of widths that it found cheapest is kept to.

    Cheapest is what an ordinary exact answer pays. That may be (1,), and then no exact answer is drafted, also not
    along a predicted text, where a wider class would be worth it: the class decides the last bits, so it must not
    depend on whether there is anything to draft from.

    watch: begins a window whose use of the cores it gives when asked.
    """

    def __init__(
        self,
        path: Path,
        target: LlamaTarget,
        vocab: Vocabulary,
        library: str,
        tuning: Tuning | None,
        watch: Callable[[], Use] = lambda: CoreReader().use,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._watch = watch
        self._clock = clock
        self._told_damage = False
        self._cut: dict[str, Classes] = {}
        self._target = target
        self._vocab = vocab
        self._library = library
        self._tuning = tuning
        self._fingerprint = model_fingerprint(path)
        self._records = Records(cache_dir() / "widths.json")

    def width_class(self, notify: Notify) -> tuple[int, ...]:
        """The widths an exact request stays inside."""
        # In a small window cache rejected drafts leave traces in the last bits, so there exact answers are plain ones.
        if not self._target.capabilities.can_rollback or self._target.windowed:
            return PLAIN_ONLY[0]
        # Other settings may have come since, say because the model was measured in an idle moment.
        if self._tuning and self._tuning.width_class and tuned_as(self._target.settings, self._tuning):
            return self._tuning.width_class
        if not self._target.capabilities.width_classes:
            self._target.set_width_classes(self._classes(notify))
        return best_class(self._target.capabilities.width_classes)

    def agreeing_threads(self, notify: Notify) -> tuple[int, ...]:
        """The thread counts among which an exact answer may change. Asked while all threads are there."""
        settings = self._target.settings
        counts = _counts(settings.n_threads, settings.n_threads_batch)
        if len(counts) == 1 or not self._target.capabilities.can_rollback or self._target.windowed:
            return counts[:1]
        # A prompt may end in a chunk of one token, which is read as a pass of one row is.
        widths = tuple(sorted({1, *self.width_class(notify)}))
        key = f"threads|{self._key()}|{widths}"
        known = self._remembered(key, notify)
        return known[0] if known else self._compare_threads(key, counts, widths, notify)

    def _compare_threads(
        self, key: str, counts: tuple[int, ...], widths: tuple[int, ...], notify: Notify
    ) -> tuple[int, ...]:
        notify(Notice("probing-threads", "measuring whether fewer threads would change a bit of an exact answer"))
        try:
            probed = self._target.sibling(min(N_TEXT, self._target.capabilities.n_ctx))
        except NotEnoughMemory:  # exact answers then keep their threads
            return counts[:1]
        with closing(probed):
            text = _probe_tokens(probed, self._vocab)
            use = self._watch()
            found = compare_threads(probed, text, counts, widths, self._clock)
        self._remember(key, (found.counts,), found.is_cut and _disturbed(use()))
        return found.counts

    def _classes(self, notify: Notify) -> Classes:
        key = self._key()
        return self._remembered(key, notify) or self._probe(key, notify)

    def _remembered(self, key: str, notify: Notify) -> Classes:
        """() if nothing is."""
        known = self._cut.get(key) or decode_classes(self._records.get(key) or "")
        if self._records.damaged and not self._told_damage:
            self._told_damage = True
            notify(Notice("records-rebuilt", f"{self._records.path.name} was damaged and is made anew"))
        return known

    def _remember(self, key: str, found: Classes, disturbed: bool) -> None:
        """What other programs cut short is good for this process only: without them more would have been compared."""
        if disturbed:
            self._cut[key] = found
        else:
            self._records.put(key, encode_classes(found))

    def _key(self) -> str:
        # Kernels are chosen by the shape of a pass, so a longer context changes nothing; a shorter one is probed less.
        n_ctx = min(N_TEXT, self._target.settings.n_ctx)
        settings = replace(self._target.settings, n_ctx=n_ctx).to_json()
        return "|".join([self._fingerprint, self._library, machine.describe(), settings])

    def _probe(self, key: str, notify: Notify) -> Classes:
        """In a cache of its own, where no other text shifts the cells; without memory for one nothing is kept."""
        notify(
            Notice(
                "probing-widths", "first exact answer with this model: measuring which batch widths agree bit for bit"
            )
        )
        try:
            probed = self._target.sibling(min(N_TEXT, self._target.capabilities.n_ctx))
        except NotEnoughMemory as error:
            notify(Notice("no-probe", f"exact answers are decoded plainly: {error.why}"))
            return PLAIN_ONLY
        with closing(probed):
            text = _probe_tokens(probed, self._vocab)
            use = self._watch()
            found = probe_classes(probed, text, self._clock)
        disturbed = found.is_cut and _disturbed(use())
        self._remember(key, found.classes, disturbed)
        if disturbed:
            notify(Notice("probe-cut", "other programs took the cores meanwhile, so it is measured again another time"))
        return found.classes


def _disturbed(use: CoreUse) -> bool:
    """A system without counters disturbs nothing."""
    return use.others is not None and use.others > TOLERATED_CORES


def _counts(n_threads: int, n_batch: int) -> tuple[int, ...]:
    """All the thread counts that a pass may be given, the wanted one first."""
    levels = ladder(n_threads, n_batch)
    return tuple(dict.fromkeys(count for level in levels for count in sorted(level.counts, reverse=True)))


def encode_classes(classes: Classes) -> str:
    return ";".join(",".join(map(str, one)) for one in classes)


def decode_classes(text: str) -> Classes:
    """What `encode_classes` wrote; empty when the text is anything else."""
    try:
        classes = tuple(tuple(int(width) for width in one.split(",")) for one in text.split(";"))
    except ValueError:
        return ()
    return classes if all(width >= 1 for one in classes for width in one) else ()


def _probe_tokens(target: Target, vocab: Vocabulary) -> IntArray:
    text = vocab.tokenize(PROBE_TEXT)
    return np.array((text * (N_TEXT // len(text) + 1))[:N_TEXT], np.int32) % target.capabilities.n_vocab
