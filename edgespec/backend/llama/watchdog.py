"""Ends a pass that takes too long: a thread that looks at one shared deadline. Knows nothing of what it ends.

Arming must cost next to nothing, since it happens before every pass: it writes a number. The thread never waits for
longer than `GRAIN_SECONDS` while there is a deadline now and then, and is asleep for good while there is none.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

# A deadline may be noticed so much too late. Shorter would wake a thread up more often, on cores that are all in use.
GRAIN_SECONDS = 0.025
# Without a deadline for so long, the thread sleeps until the next one wakes it, which costs some 10 us.
_LINGER_SECONDS = 0.5


class Watchdog:
    """`expire` is called in the watchdog's thread, once for each deadline that passes; it must be short."""

    def __init__(self, expire: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> None:
        self._expire = expire
        self._clock = clock
        self._deadline = math.inf
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self.asleep = False
        self._barking = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="edgespec-watchdog", daemon=True)
        self._thread.start()

    def arm(self, seconds: float) -> None:
        """`expire` is called when `disarm` has not been within so many seconds."""
        self._deadline = self._clock() + seconds
        if self.asleep:
            self._wake.set()

    def disarm(self) -> None:
        """Afterwards `expire` is over or is not called."""
        self._deadline = math.inf
        if self._barking:  # asked after there is no deadline any more, so one that was seen before is waited for
            with self._lock:
                pass

    def close(self) -> None:
        """End the thread. Closing twice is harmless."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        idle_since = self._clock()
        while not self._closed:
            now = self._clock()
            left = self._deadline - now
            if left < math.inf:
                idle_since = now
            if left <= 0.0:
                self._bark()
            elif now - idle_since > _LINGER_SECONDS:
                self._sleep()
                idle_since = self._clock()
            else:
                time.sleep(min(left, GRAIN_SECONDS))

    def _bark(self) -> None:
        with self._lock:
            self._barking = True
            if self._deadline <= self._clock():  # not disarmed, nor armed anew, since it was looked at
                self._deadline = math.inf
                self._expire()
            self._barking = False

    def _sleep(self) -> None:
        self.asleep = True
        if self._deadline == math.inf:  # asked after `asleep` is set, so an `arm` at this moment is seen or wakes
            self._wake.wait()
        self.asleep = False
        if not self._closed:
            self._wake.clear()
