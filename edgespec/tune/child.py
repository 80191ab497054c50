"""A child process that opens a model with one setting and measures on command: orders on stdin, reports on stdout.

Run by `edgespec.tune.children`. Some builds of llama.cpp die on some settings, so nothing is tried in the user's
process. It ends when stdin does, so no child outlives its parent.
"""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from edgespec.backend.settings import LlamaSettings
from edgespec.backend.trial import REFUSED, die_quietly
from edgespec.backend.widths import N_TEXT, SCOPES, Classes, find_classes
from edgespec.errors import EdgeSpecError
from edgespec.tune.measure import Bench, filler
from edgespec.tune.protocol import Order, Report, Task

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget


# What a probe says of a target that is too slow or too short for it.
NOT_COMPARED: Classes = ((1,),)


class Worker:
    """Carries out orders on one open target."""

    def __init__(self, target: LlamaTarget) -> None:
        self._target = target
        self.bench = Bench(target, time.perf_counter)
        self._threads = (target.settings.n_threads, target.settings.n_threads_batch)

    @property
    def settings(self) -> LlamaSettings:
        return self._target.settings

    def carry_out(self, order: Order) -> Report:
        if (order.n_threads, order.n_batch) != self._threads:
            self._target.set_threads(order.n_threads, order.n_batch)
            self._threads = (order.n_threads, order.n_batch)
        if order.task is Task.READ:
            return self._report(self.bench.read(order.n, order.chunk))
        if order.task is Task.PASS:
            return self._report(self.bench.pass_seconds(order.n))
        return Report(length=self.bench.length, widest=self.bench.widest, classes=self._classes(order.seconds))

    def _report(self, seconds: float) -> Report:
        return Report(seconds, self.bench.length, self.bench.widest)

    def _classes(self, budget_seconds: float) -> Classes:
        """In a cache of its own, where no other text shifts the cells. () unless they are compared as thoroughly as an
        engine that has the time does: a hurried probe overlooks differences, and its result would be kept for ever.
        """
        if self._target.windowed or self.bench.widest < 2:
            return ()
        can = self._target.capabilities
        with closing(self._target.sibling(min(N_TEXT, can.n_ctx))) as probed:
            text = filler(N_TEXT, can.n_vocab)
            found = find_classes(probed, text, time.perf_counter, budget_seconds, SCOPES[:1])
        return () if found == NOT_COMPARED else found


@contextmanager
def opened(path: Path, settings: LlamaSettings) -> Iterator[Worker]:
    from edgespec.backend.llama.native import load_model
    from edgespec.backend.llama.target import LlamaTarget

    with closing(LlamaTarget(load_model(path, settings), settings)) as target:
        yield Worker(target)


def serve(path: Path, settings: LlamaSettings, orders: TextIO, reports: TextIO) -> None:
    """Report readiness, then one report for each order. Raises what the target raises."""
    with opened(path, settings) as worker:
        _say(reports, Report(widest=worker.bench.widest))
        for line in orders:
            _say(reports, worker.carry_out(Order.from_line(line)))


def _say(reports: TextIO, report: Report) -> None:
    reports.write(report.to_line())
    reports.flush()


def main() -> int:
    # Ctrl-C reaches the whole group of processes; the parent, which hears it too, must not take it for a crash.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_quietly()
    try:
        serve(Path(sys.argv[1]), LlamaSettings.from_json(sys.argv[2]), sys.stdin, sys.stdout)
    except EdgeSpecError as error:
        _say(sys.stdout, Report(refused=str(error)))
        return REFUSED
    except Exception as error:  # whatever else Python reports, the process has survived the settings
        traceback.print_exc()
        _say(sys.stdout, Report(refused=repr(error)))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
