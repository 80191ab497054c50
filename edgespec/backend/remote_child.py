"""A child process that owns a step model and answers calls: frames in on stdin, frames out on what was stdout.

Run by `edgespec.backend.remote`. Whatever the model or its library prints goes to stderr, so that no word gets between
the frames. It ends when stdin does, also in the midst of a step, so it never outlives its parent. Knows no drafter.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from typing import IO, cast

import numpy as np

from edgespec.backend.frames import BadFrame, Frame, Kind, read, write
from edgespec.backend.remote_spec import build
from edgespec.backend.trial import die_quietly
from edgespec.errors import EdgeSpecError
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.spec.step import Ranked, StepModel


def ready(step: StepModel) -> Frame:
    limits = step.limits
    numbers = (
        limits.n_ctx,
        limits.n_vocab,
        limits.n_ranked,
        limits.max_rows,
        limits.max_chunk,
        int(limits.branches),
    )
    return Frame(Kind.READY, numbers, texts=(step.name,))


def answer(step: StepModel, call: Frame) -> Frame:
    """Carry out one call. What the step raises becomes a frame too."""
    try:
        return _carried_out(step, call)
    except ValueError as error:
        return Frame(Kind.REFUSED, texts=(str(error),))
    except EdgeSpecError as error:
        return Frame(Kind.FAILED, texts=(error.why,))
    except Exception as error:  # whatever a step raises is the parent's news; the process lives on
        return Frame(Kind.FAILED, texts=(_named(error),))


def _carried_out(step: StepModel, call: Frame) -> Frame:
    (start,) = call.numbers
    tokens = cast(IntArray, call.arrays[0])
    if call.kind is Kind.RUN:
        ranked = step.run(tokens, start, call.arrays[1] if len(call.arrays) > 1 else None)
        return Frame(Kind.RANKED, arrays=_arrays(ranked))
    if call.kind is Kind.READ:
        step.read(tokens, start)
    elif call.kind is Kind.KEEP:
        step.keep(tokens, start)
    else:
        raise ValueError(f"{call.kind.name} is no call")
    return Frame(Kind.DONE)


def _arrays(ranked: Ranked) -> tuple[IntArray, FloatArray, FloatArray]:
    ids = np.asarray(ranked.ids, np.int32)
    return ids, np.asarray(ranked.logits, np.float32), np.asarray(ranked.log_sums, np.float32)


def serve(step: StepModel, calls: queue.SimpleQueue[Frame], out: IO[bytes]) -> None:
    """Answer calls for ever; the listener ends the process."""
    write(out, ready(step))
    while True:
        write(out, answer(step, calls.get()))


def listen(stream: IO[bytes], calls: queue.SimpleQueue[Frame]) -> None:
    """Hand on the parent's calls; end the process with the stream, whatever the step is doing."""
    try:
        while True:
            calls.put(read(stream))
    except EOFError:
        os._exit(0)
    except BadFrame as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


def _own_input() -> IO[bytes]:
    """What was stdin. From now on stdin is empty: no native code reads a frame, and on Windows none waits for one.
    There whoever asks what kind of file stdin is, as Fortran's library does while it is loaded, waits for a pending
    read.
    """
    own = os.fdopen(os.dup(0), "rb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return own


def _own_output() -> IO[bytes]:
    """What was stdout. From now on every other word written to stdout, also by native code, goes to stderr."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own


def main() -> None:
    # Ctrl-C reaches the whole group of processes; only the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_quietly()
    own, out = _own_input(), _own_output()
    calls: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(own, calls), daemon=True).start()
    try:
        serve(build(sys.argv[1]), calls, out)
    except BrokenPipeError:
        os._exit(0)  # nobody reads any more
    except EdgeSpecError as error:
        write(out, Frame(Kind.FAILED, texts=(error.what, error.why, error.remedy)))
    except Exception as error:  # whatever a library raises while it loads is the parent's news
        write(out, Frame(Kind.FAILED, texts=("the draft cannot be opened", _named(error), "choose another draft")))
    os._exit(1)  # at once: the interpreter's own end would wait for the thread that listens


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
