"""A step model in a real process: the same answers as here, and every way to lose the process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.frames import Frame, Kind, read, write
from edgespec.backend.remote import Patience, RemoteStep, StepLost, step_command
from edgespec.errors import EngineFailure
from edgespec.processes import HOME
from edgespec.spec.ports import IntArray
from edgespec.spec.step import Ranked, StepModel
from tests.backend.remote_toys import DIES, FAILS, HANGS, IS_NAN, IS_ODD, PRINTS, RAISES, TableStep

Call = tuple[str, list[int], int, list[int] | None]
FRESH: Call = ("read", [1], 0, None)
SPEC = "python:tests.backend.remote_toys:table:"


# A test that waits longer for another process has failed, however busy the machine is.
PATIENCE_SECONDS = 60.0


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def step() -> Iterator[RemoteStep]:
    with closing(RemoteStep(SPEC, "little")) as opened:
        assert opened.name == "little"  # until it says its own name
        assert opened.limits == TableStep.limits
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
        with pytest.raises(StepLost, match="its process was lost and pauses"):
            step.run(row(1), 0)
        assert step.n_starts == 1
        clock.now += 1.0
        until(step.is_there)
        with pytest.raises(StepLost, match="its process is new and has read nothing"):
            step.run(row(3), 2)
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
    with closing(RemoteStep(SPEC, patience=Patience(0.3), clock=clock)) as step:
        with pytest.raises(StepLost, match=said):
            step.run(row(token), 0)
        assert step.pid == 0
        clock.now += 60.0
        until(step.is_there)
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

    seconds = 0.5 if "sleep" in script else 60.0
    with (
        closing(RemoteStep("onnx:x", open_seconds=seconds, command=command)) as step,
        pytest.raises(StepLost, match=said),
    ):
        assert step.limits


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


def test_a_system_that_starts_no_process_any_more_is_not_asked_all_the_time() -> None:
    clock, programs = Clock(), [sys.executable]
    with closing(RemoteStep(SPEC, clock=clock, command=lambda spec: [programs[-1], *step_command(spec)[1:]])) as step:
        step.read(row(1), 0)
        programs.append("/no/such/program")
        psutil.Process(step.pid).kill()
        with pytest.raises(StepLost, match="died"):
            step.read(row(1), 0)
        clock.now += 1.0
        with pytest.raises(EngineFailure, match="cannot start a process"):
            step.is_there()
        for _ in range(9):
            with pytest.raises(StepLost, match="pauses"):
                step.is_there()
        assert (step.n_starts, step.pid) == (2, 0)
        programs.pop()
        clock.now += 2.0
        until(step.is_there)
        step.read(row(1), 0)


def test_its_pipe_is_not_what_native_code_finds_as_stdin() -> None:
    """Else a library could read a frame, and on Windows one that is only loaded would wait for the next."""
    with closing(RemoteStep("python:tests.backend.remote_toys:nosy:")) as step:
        assert step.limits == TableStep.limits
        assert same(step.run(row(1), 0), TableStep().run(row(1), 0))


def test_a_model_that_does_not_open_says_why() -> None:
    clock = Clock()
    with closing(RemoteStep(SPEC + "smol", clock=clock)) as step:
        with pytest.raises(StepLost, match=r"^cannot open smol: there is no such draft; look again\.$"):
            assert step.limits
        with pytest.raises(StepLost, match="pauses"):
            step.is_there()
        clock.now += 1.0
        assert step.is_there() is False
        with pytest.raises(StepLost, match="look again"):
            step.run(row(1), 0)  # waits, since it was never there
        assert step.n_starts == 2


def test_a_draft_that_breaks_while_it_loads_says_why() -> None:
    with (
        closing(RemoteStep("coreml:x")) as step,
        pytest.raises(StepLost, match=r"^the draft cannot be opened: ValueError: no step model is called"),
    ):
        assert step.limits


def test_nobody_has_to_wait_while_it_loads(tmp_path: Path) -> None:
    clock, gate = Clock(), tmp_path / "gate"
    with closing(RemoteStep(f"python:tests.backend.remote_toys:gated:{gate}", clock=clock)) as step:
        assert not step.is_there()
        gate.touch()
        until(step.is_there)
        gate.unlink()
        psutil.Process(step.pid).kill()
        with pytest.raises(StepLost, match="died"):
            step.read(row(1, 2), 0)
        clock.now += 1.0
        for _ in range(2):
            with pytest.raises(StepLost, match="its new process is loading"):
                step.read(row(1, 2), 0)
        gate.touch()
        until(step.is_there)
        step.read(row(1, 2), 0)
        assert step.n_starts == 2


def test_closing_while_it_loads_waits_for_nothing(tmp_path: Path) -> None:
    step = RemoteStep(f"python:tests.backend.remote_toys:gated:{tmp_path / 'never'}", open_seconds=600.0)
    step.close()
    with pytest.raises(StepLost, match="it was closed"):
        step.is_there()


def test_patience_grows_with_what_is_read() -> None:
    patience = Patience(2.0, 0.5)
    assert patience.of(Frame(Kind.RUN, (0,), (row(1, 2),))) == 2.0
    assert patience.of(Frame(Kind.READ, (0,), (row(1, 2, 3),))) == 3.5


@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_hung_call_ends_soon_once_nobody_waits_for_it(is_under_way: bool) -> None:
    clock = Clock()
    asked = threading.Event()

    class Telling(Patience):
        def of(self, call: Frame) -> float:
            asked.set()
            return 600.0

    with closing(RemoteStep(SPEC, patience=Telling(), clock=clock)) as step:
        step.read(row(1), 0)
        asked.clear()
        said: list[str] = []

        def hang() -> None:
            try:
                step.run(row(HANGS), 1)
            except StepLost as error:
                said.append(str(error))

        caller = threading.Thread(target=hang, daemon=True)
        if is_under_way:
            caller.start()
            assert asked.wait(PATIENCE_SECONDS)
            step.hurry(True)
        else:
            step.hurry(True)
            caller.start()
        caller.join(PATIENCE_SECONDS)
        assert len(said) == 1
        assert "gave no answer within 0.2 s" in said[0]
        step.hurry(False)
        clock.now += 1.0
        until(step.is_there)
        step.read(row(1), 0)
        assert step.n_starts == 2


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_child_ends_with_its_parent_also_within_a_step(is_busy: bool) -> None:
    """The parent's end of the pipe closes when the parent dies, however it dies."""
    with subprocess.Popen(step_command(SPEC), cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        read(child.stdout)
        if is_busy:
            write(child.stdin, Frame(Kind.RUN, (0,), (row(HANGS),)))
        child.stdin.close()
        assert child.wait(timeout=60) == 0


def test_a_child_dies_with_its_parent() -> None:
    """However the parent ends: here it is killed and can say nothing."""
    script = (
        "import sys, time; from edgespec.backend.remote import RemoteStep; "
        f"step = RemoteStep({SPEC!r}); step.limits; print(step.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=HOME, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()

    def is_gone() -> bool:
        try:  # whoever inherits it may be slow to bury it
            return child.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    until(is_gone)


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
