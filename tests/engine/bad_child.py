"""A draft's process that goes wrong once, at one of its calls; the one that is started after it is in order.

    python -m tests.engine.bad_child SPEC FAULT N MARKER

The file MARKER says that it has happened, and keeps it from happening again.
"""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO

from edgespec.backend.frames import Frame, Kind, read, write
from edgespec.backend.remote_child import answer, ready
from edgespec.backend.remote_spec import build

HANGS, DIES, GARBAGE, NAN, STRANGE, NEVER = "hangs", "dies", "garbage", "nan", "strange", "never"


def wrong(fault: str, good: Frame, out: IO[bytes]) -> None:
    if fault == HANGS:
        sys.stdin.buffer.read()  # until the parent ends
        os._exit(0)
    if fault == DIES:
        os._exit(9)
    if fault == GARBAGE:
        out.write(b"Error: tile 7 is broken, and this is no frame at all\n")
        out.flush()
    elif fault == NAN:
        write(out, replace(good, arrays=(good.arrays[0], good.arrays[1] * float("nan"), good.arrays[2])))
    elif fault == STRANGE:
        write(out, replace(good, arrays=(good.arrays[0] + 100_000, *good.arrays[1:])))


def main() -> None:
    spec, fault, at, marker = sys.argv[1:]
    out = sys.stdout.buffer
    step = build(spec)
    write(out, ready(step))
    for n in itertools.count(1):
        good = answer(step, read(sys.stdin.buffer))
        if good.kind is Kind.RANKED and n >= int(at) and fault != NEVER and not Path(marker).exists():
            Path(marker).touch()
            wrong(fault, good, out)
        else:
            write(out, good)


if __name__ == "__main__":
    try:
        main()
    except EOFError:
        os._exit(0)
