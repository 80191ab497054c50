"""A step model in a real process: the same answers as here, and every way to lose the process."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.frames import Frame, Kind, read, write
from edgespec.backend.probe import HOME
from edgespec.backend.remote import RemoteStep, StepLost, child_command
from edgespec.backend.remote_child import build
from edgespec.errors import EngineFailure
from edgespec.spec.ports import IntArray
from edgespec.spec.step import Ranked, StepModel
from tests.backend.remote_toys import DIES, FAILS, HANGS, IS_NAN, IS_ODD, PRINTS, RAISES, TableStep

Call = tuple[str, list[int], int, list[int] | None]
FRESH: Call = ("read", [1], 0, None)
SPEC = "python:tests.backend.remote_toys:table:"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def step() -> Iterator[RemoteStep]:
    with closing(RemoteStep(SPEC)) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _none_left_behind(step: RemoteStep) -> Iterator[None]:
    before = set(psutil.Process().children())
    yield
    assert step.pid
    assert set(psutil.Process().children()) <= before


def row(*tokens: int) -> IntArray:
    return np.array(tokens, np.int32)


def same(ours: Ranked, theirs: Ranked) -> bool:
    pairs = ((ours.ids, theirs.ids), (ours.logits, theirs.logits), (ours.log_sums, theirs.log_sums))
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def outcome(step: StepModel, call: Call) -> Ranked | str | None:
    """What a call gives: rows, nothing, or the sentence it refuses with."""
    name, numbers, start, parents = call
    try:
        if name == "run":
            return step.run(row(*numbers), start, None if parents is None else row(*parents))
        (step.read if name == "read" else step.keep)(row(*numbers), start)
    except ValueError as error:
        return str(error)
    return None


calls = st.one_of(
    st.tuples(st.just("run"), st.lists(st.integers(0, 99), min_size=1, max_size=4), st.integers(0, 12), st.none()),
    st.tuples(
        st.just("run"),
        st.lists(st.integers(0, 99), min_size=2, max_size=2),
        st.integers(0, 12),
        st.lists(st.integers(-1, 9), min_size=2, max_size=2),
    ),
    st.tuples(st.just("read"), st.lists(st.integers(0, 99), min_size=1, max_size=16), st.integers(0, 12), st.none()),
    st.tuples(st.just("keep"), st.just([0]), st.just(0), st.none()),
)


@settings(max_examples=40)
@given(st.lists(calls, max_size=12))
def test_it_answers_as_the_same_model_here(step: RemoteStep, made: list[Call]) -> None:
    here = TableStep()
    assert (step.name, step.limits) == (here.name, here.limits)
    for one in (FRESH, *made):
        ours, theirs = outcome(step, one), outcome(here, one)
        if isinstance(ours, Ranked) and isinstance(theirs, Ranked):
            assert same(ours, theirs)
        else:
            assert ours == theirs
    assert step.n_starts == 1


def test_what_the_model_returns_passes_as_it_is(step: RemoteStep) -> None:
    for token in (IS_NAN, IS_ODD):
        assert same(step.run(row(token), 0), TableStep().run(row(token), 0))


def test_an_error_in_the_model_is_told_and_costs_no_process(step: RemoteStep) -> None:
    with pytest.raises(EngineFailure, match=r"^the draft table: RuntimeError: no such layer; the answer goes on"):
        step.run(row(RAISES), 0)
    with pytest.raises(EngineFailure, match=r"^the draft table: out of buffers; the answer goes on"):
        step.run(row(FAILS), 0)
    assert same(step.run(row(1), 0), TableStep().run(row(1), 0))
    assert step.n_starts == 1


def test_what_the_model_prints_does_not_get_between_the_frames(step: RemoteStep) -> None:
    assert same(step.run(row(PRINTS), 0), TableStep().run(row(PRINTS), 0))


def test_a_killed_child_is_noticed_and_comes_back_after_a_pause() -> None:
    clock = Clock()
    with closing(RemoteStep(SPEC, clock=clock)) as step:
        step.read(row(1, 2), 0)
        psutil.Process(step.pid).kill()
        with pytest.raises(StepLost, match="the draft table: its process died"):
            step.run(row(3), 2)
        with pytest.raises(StepLost, match="its process is new and has read nothing"):
            step.run(row(3), 2)
        with pytest.raises(StepLost, match="its process was lost and pauses"):
            step.run(row(1), 0)
        assert step.n_starts == 1
        clock.now += 1.0
        assert same(step.run(row(1), 0), TableStep().run(row(1), 0))
        assert step.n_starts == 2
        psutil.Process(step.pid).kill()
        with pytest.raises(StepLost):
            step.read(row(1), 0)
        clock.now += 1.0
        with pytest.raises(StepLost, match="pauses"):  # the second pause is longer
            step.read(row(1), 0)


@pytest.mark.parametrize(
    ("token", "said"),
    [(DIES, r"its process died \(tile 7 is broken\)"), (HANGS, "its process gave no answer within 0.3 s")],
)
def test_a_child_that_dies_or_hangs_in_a_step(token: int, said: str) -> None:
    clock = Clock()
    with closing(RemoteStep(SPEC, call_seconds=0.3, clock=clock)) as step:
        with pytest.raises(StepLost, match=said):
            step.run(row(token), 0)
        assert step.pid == 0
        clock.now += 60.0
        step.read(row(1), 0)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("print('llama says hello to everyone')", "no frame starts with b'llam'"),
        ("raise SystemExit('no Metal here')", r"its process died \(no Metal here\)"),
        ("raise SystemExit(7)", r"its process died \(it left with code 7\)"),
        ("import sys; sys.stdout.buffer.write(b'eSf1' + bytes([6, 0, 0, 0, 0, 0, 0, 0]))", "began with DONE"),
        ("import time; time.sleep(60)", "gave no answer within 0.5 s"),
    ],
)
def test_a_child_that_never_begins(script: str, said: str) -> None:
    def command(_: str) -> Sequence[str]:
        return [sys.executable, "-c", script]

    with pytest.raises(EngineFailure, match=said):
        RemoteStep("onnx:x", open_seconds=0.5 if "sleep" in script else 60.0, command=command)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("frames.write(out, frames.Frame(frames.Kind.READY))", "its process answered READY"),
        ("out.write(b'x' * 100)", "no frame starts with b'xxxx'"),
        ("out.write(b'eSf1' + bytes(8)); out.write(b'x' * 100)", "a frame of kind 0 cannot be read"),
        ("out.write(b'eSf1'); sys.exit('half a frame')", r"its process died \(half a frame\)"),
    ],
)
def test_garbage_instead_of_an_answer(words: str, said: str) -> None:
    script = (
        "import sys; from edgespec.backend import remote_child as child, frames; "
        "out = sys.stdout.buffer; frames.write(out, child.ready(child.build(sys.argv[1]))); "
        f"frames.read(sys.stdin.buffer); {words}; out.flush(); sys.stdin.read()"
    )
    with closing(RemoteStep(SPEC, command=lambda spec: [sys.executable, "-c", script, spec])) as step:
        with pytest.raises(StepLost, match=said):
            step.run(row(1), 0)
        assert step.pid == 0


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(EngineFailure, match="cannot start a process for the draft onnx:x: "):
        RemoteStep("onnx:x", command=lambda _: ["/no/such/program"])


def test_a_model_that_does_not_open_says_why() -> None:
    with pytest.raises(EngineFailure, match="cannot open smol: there is no such draft; look again"):
        RemoteStep(SPEC + "smol")


def test_a_folder_that_is_no_draft_says_why(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match=rf"{tmp_path.name}.*; the answer goes on without it"):
        RemoteStep(f"onnx:{tmp_path}")


def test_specs() -> None:
    assert isinstance(build(SPEC), TableStep)
    for spec in ("", "coreml", "python:tests.backend.remote_toys", "pickle:x:y:z"):
        with pytest.raises(ValueError, match="no step model is called"):
            build(spec)


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_child_ends_with_its_parent_also_within_a_step(is_busy: bool) -> None:
    """The parent's end of the pipe closes when the parent dies, however it dies."""
    with subprocess.Popen(child_command(SPEC), cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        read(child.stdout)
        if is_busy:
            write(child.stdin, Frame(Kind.RUN, (0,), (row(HANGS),)))
        child.stdin.close()
        assert child.wait(timeout=60) == 0


def test_closing_breaks_off_a_call_of_another_thread() -> None:
    step = RemoteStep(SPEC)
    said: list[str] = []

    def hang() -> None:
        try:
            step.run(row(HANGS), 0)
        except StepLost as error:
            said.append(str(error))

    caller = threading.Thread(target=hang)
    caller.start()
    step.close()
    step.close()
    caller.join(60)
    assert len(said) == 1
    with pytest.raises(StepLost, match="it was closed"):
        step.run(row(1), 0)
