"""A child that speaks tuning's protocol without a model: its passes cost what a formula says, and it fails on demand.

Arguments: the settings, a file that every order is noted in, and rules "WHERE=HOW": an opening (as `name_of` names it)
and what it does instead of working; "slowed=BEGIN:END" is a time in which other programs slow every pass.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgespec.backend.settings import FlashAttention, KvType, LlamaSettings
from edgespec.tune.protocol import Order, Report, Task

WIDEST = 32
N_LAYERS = 32
# A model of 7 billion weights on two cores: 0.4 seconds for a token.
SLOWNESS, LOAD_SECONDS = 60.0, 6.0
# Threads that wait for each other beside a busy program.
DISTURBED = 50.0


def name_of(settings: LlamaSettings) -> str:
    flash = settings.flash_attention.value
    kv = "" if settings.kv_type is KvType.F16 else f"-{settings.kv_type.value}"
    device = f"-gpu{settings.n_gpu_layers}@{settings.main_gpu}" if settings.n_gpu_layers else ""
    return f"{flash}{'' if settings.extra_buffers else '-bare'}{kv}{device}"


def pass_seconds(settings: LlamaSettings, n_threads: int, context: int, width: int) -> float:
    """Flash attention helps short texts and hurts long ones; extra buffers help; two threads are 1.5 times as fast."""
    seconds = 0.010 if settings.extra_buffers else 0.018
    if settings.n_gpu_layers:
        seconds *= gpu_share(settings)
    if settings.flash_attention is not FlashAttention.OFF:
        seconds += -0.001 + 0.000006 * context
    return seconds * (1.0 + 0.15 * (width - 1)) / (1.0 if n_threads == 1 else 1.5)


def gpu_share(settings: LlamaSettings) -> float:
    """GPU 1 is the fastest, several take turns, and layers that stay on the CPU take their time there."""
    share = {0: 0.4, 1: 0.1}.get(settings.main_gpu, 0.3)
    return share if settings.n_gpu_layers < 0 else 1.0 - (1.0 - share) * settings.n_gpu_layers / N_LAYERS


class FakeChild:
    def __init__(
        self, settings: LlamaSettings, notes: Path, how: str, slowed: Sequence[tuple[float, float]] = ()
    ) -> None:
        self._slowed = slowed
        self._settings = settings
        self._notes = notes
        self._how = how
        self._length = 0

    def run(self) -> None:
        self._fail("at-start")
        self._spend(LOAD_SECONDS if self._how == "slow" else 0.0)
        self._say(Report(widest=1 if self._how == "no-rollback" else WIDEST))
        for line in sys.stdin:
            order = Order.from_line(line)
            self._note(order)
            self._fail("at-pass" if order.task is Task.PASS else "at-reading")
            self._fail(f"at-{order.n_threads}-threads" if order.task is Task.PASS else "")
            self._fail("at-classes" if order.task is Task.CLASSES else "")
            self._fail("at-wide" if order.task is Task.PASS and order.n > 16 else "")
            report = self._answer(order)
            if self._how == "slow":
                report = replace(report, seconds=SLOWNESS * report.seconds)
            if order.task is Task.PASS and any(begin <= self._spent() <= end for begin, end in self._slowed):
                report = replace(report, seconds=DISTURBED * report.seconds)
            self._spend(report.seconds)
            self._say(report)

    def _answer(self, order: Order) -> Report:
        widest = 1 if self._how == "no-rollback" else WIDEST
        if order.task is Task.CLASSES:
            return Report(0.0, self._length, widest, () if self._how == "hurried" else ((2, 4, 8, 16), (1,)))
        if order.task is Task.READ:
            before = min(self._length, order.n)
            self._length = min(order.n, before + order.chunk)
            n_read = self._length - before
            slow = order.chunk < 256 and self._how != "any-chunk"
            return Report(n_read * (2e-4 if slow else 1e-4), self._length, widest)
        assert order.n <= widest
        seconds = pass_seconds(self._settings, order.n_threads, self._length, order.n)
        if self._how == "no-rollback":
            self._length += 1
        return Report(seconds, self._length, widest)

    def _note(self, order: Order) -> None:
        with self._notes.open("a") as notes:
            notes.write(f"{name_of(self._settings)} {order.task.value} {order.n} {order.n_threads} {self._length}\n")

    def _spend(self, seconds: float) -> None:
        """Tell the clock of the test what a real child would have taken."""
        with self._notes.with_name("spent").open("a") as spent:
            spent.write(f"{seconds}\n")

    def _spent(self) -> float:
        path = self._notes.with_name("spent")
        return sum(map(float, path.read_text().split())) if path.exists() else 0.0

    def _fail(self, moment: str) -> None:
        how, _, when = self._how.partition("@")
        if when != moment:
            return
        if how == "dies":
            print("out of tiles", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        if how == "hangs":
            time.sleep(3600)
        if how == "refuses":
            self._say(Report(refused="no memory for it"))
            sys.exit(20)
        if how == "babbles":
            print("llama says hello", flush=True)

    def _say(self, report: Report) -> None:
        print(report.to_line(), end="", flush=True)


if __name__ == "__main__":
    settings = LlamaSettings.from_json(sys.argv[1])
    pairs = [rule.split("=") for rule in sys.argv[3:]]
    rules = dict(pairs)
    slowed = [tuple(map(float, when.split(":"))) for name, when in pairs if name == "slowed"]
    how = rules.get(name_of(settings), rules.get("all", ""))
    FakeChild(settings, Path(sys.argv[2]), how, [(begin, end) for begin, end in slowed]).run()
