"""What docs/api.md promises to programs, with a real file of a toy model: each claim has a test here.

That answers stop, drafts are told and errors stay with their answer is tested with the engine; here is what a program
around it would notice.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec import (
    CancelToken,
    EdgeSpecError,
    Engine,
    EngineOptions,
    Finish,
    GenerateOptions,
    Grammar,
    Piece,
    Progress,
    SamplingSettings,
    Stage,
)
from edgespec.errors import BadInput, ContextOverflow, CorruptModel, EngineFailure, GivenUp, ModelNotFound
from tests.toy_start import ROOT, environment
from tools.make_toy_model import SHAPES, Kind, corrupt, write_toy_model

OPTIONS = EngineOptions(ctx_size=1024, threads=1)
SHORT = GenerateOptions(max_tokens=12)
LONG = GenerateOptions(max_tokens=900)
DEADLINE_SECONDS = 60.0
# Where a process tells which signals it catches (Linux); elsewhere Python's own table must do.
STATUS = Path("/proc/self/status")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _isolated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(home))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")


@pytest.fixture
def engine(toy: Path) -> Iterator[Engine]:
    with Engine.open(toy, OPTIONS) as opened:
        yield opened


def test_nothing_is_written_to_stdout_or_stderr(toy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Engine.open(toy, OPTIONS) as engine, engine.conversation() as chat:
        assert chat.say("hello", replace(SHORT, exact=True)).text
        with pytest.raises(ContextOverflow):
            chat.say("far too long " * 1000)
    broken = write_toy_model(tmp_path / "broken.gguf")
    corrupt(broken, 24, 64)
    with pytest.raises(EdgeSpecError):
        Engine.open(broken, OPTIONS)
    assert capfd.readouterr() == ("", "")


def test_no_signal_handler_is_set(toy: Path) -> None:
    before = caught()
    with Engine.open(toy, OPTIONS) as engine:
        assert engine.complete("hello", SHORT).text
        assert caught() == before
    assert caught() == before


def caught() -> tuple[list[object], list[str]]:
    handlers: list[object] = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return handlers, [line for line in lines if line.startswith(("SigCgt", "SigIgn", "SigBlk"))]


def test_its_thread_is_gone_after_close_and_closing_twice_is_harmless(toy: Path) -> None:
    before = set(threading.enumerate())
    engine = Engine.open(toy, OPTIONS)
    answer = engine.complete("hello", LONG)
    assert set(threading.enumerate()) > before
    engine.close()
    engine.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(EngineFailure, match="closed"):
        answer.completion()
    with pytest.raises(EngineFailure, match="closed"):
        engine.complete("hello", SHORT)


# glibc keeps some of what is freed for the next time, now more, now less, unless it is told not to.
FREED_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
# Opens, asks and closes again and again; prints the resident bytes while the model is open and after it was closed.
# Without the garbage collector: nothing may wait for it.
CYCLES = """
import gc, json, sys
import psutil
from edgespec import Engine, EngineOptions, GenerateOptions
process, open_bytes, closed_bytes = psutil.Process(), [], []
gc.disable()
for _ in range(8):
    with Engine.open(sys.argv[1], EngineOptions(ctx_size=4096, threads=1)) as engine, engine.conversation() as chat:
        chat.say("hello", GenerateOptions(max_tokens=8)).wait()
        engine.complete("the river " * 100, GenerateOptions(max_tokens=8)).wait()
        open_bytes.append(process.memory_info().rss)
    closed_bytes.append(process.memory_info().rss)
print(json.dumps([open_bytes, closed_bytes]))
"""


def test_memory_is_given_back_by_close(tmp_path: Path) -> None:
    shape = replace(SHAPES[Kind.LLAMA], n_layer=4, n_embd=256, n_head_kv=4, n_ff=1024)
    model = write_toy_model(tmp_path / "larger.gguf", shape=shape)
    n_model = model.stat().st_size
    assert n_model > 12 << 20
    child = [sys.executable, "-c", CYCLES, str(model)]
    variables = {**environment(tmp_path), **FREED_AT_ONCE}
    done = subprocess.run(child, env=variables, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    opened, closed = json.loads(done.stdout)
    assert closed[-1] < opened[-1] - n_model // 2
    # What stayed of every model, its weights or its cache, which is as large, would count four times here.
    assert max(closed[4:]) - max(closed[:4]) < n_model // 2


def test_a_conversation_gives_its_cache_back(engine: Engine) -> None:
    """More of them, one after another, than the context has room for at a time."""
    for _ in range(8):
        with engine.conversation() as chat:
            completion = chat.say("the river " * 100, SHORT).completion()
            assert completion.usage.completion_tokens == 12


def test_errors_leave_engine_and_conversation_usable(engine: Engine) -> None:
    with engine.conversation() as chat:
        expected = chat.say("hello", SHORT).text
        chat.undo()
        with pytest.raises(ContextOverflow):
            chat.say("far too long " * 1000)
        with pytest.raises(BadInput):
            chat.say("hello", replace(SHORT, grammar=Grammar.lark("start: nothing_like_it")))
        with pytest.raises(BadInput):
            chat.say("hello", replace(SHORT, sampling=SamplingSettings(logit_bias=((10**6, 1.0),))))
        with pytest.raises(ZeroDivisionError):
            chat.say("hello", SHORT, on_piece=lambda _: 1 // 0).completion()
        assert chat.messages == ()
        assert chat.say("hello", SHORT).text == expected


@pytest.mark.parametrize("missing", ["no-such-model", "no-such-file.gguf"])
def test_a_model_that_cannot_be_opened_leaves_nothing_behind(missing: str, toy: Path, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ModelNotFound):
        Engine.open(missing, OPTIONS)
    (tmp_path / "empty.gguf").write_bytes(b"")
    with pytest.raises(CorruptModel):
        Engine.open(tmp_path / "empty.gguf", OPTIONS)
    assert set(threading.enumerate()) == before
    with Engine.open(toy, OPTIONS) as engine:
        assert engine.complete("hello", SHORT).text


def test_several_threads_and_conversations_share_one_engine(engine: Engine) -> None:
    def talk(number: int) -> tuple[str, str]:
        with engine.conversation(system=f"You are number {number}.") as chat:
            return chat.say("Who are you?", exact).text, chat.say("And now?", exact).text

    exact = replace(SHORT, exact=True)  # what it says does not depend on who runs beside it
    alone = [talk(number) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(talk, range(6))) == alone
    assert len(set(alone)) > 1


def test_several_engines_at_a_time(toy: Path) -> None:
    with ExitStack() as stack:
        engines = [stack.enter_context(Engine.open(toy, OPTIONS)) for _ in range(3)]
        answers = [engine.complete("hello", SHORT) for engine in engines]
        assert len({answer.text for answer in answers}) == 1


def test_asking_returns_while_the_engine_works(toy: Path) -> None:
    """As a window's thread needs it: nothing is read or decoded before the call returns."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: Piece) -> None:
        begun.set()
        assert go_on.wait(DEADLINE_SECONDS)

    with Engine.open(toy, OPTIONS) as engine, engine.conversation() as chat:
        engine.complete("hello", SHORT, on_piece=hold)
        assert begun.wait(DEADLINE_SECONDS)
        answers = [engine.complete("hello", SHORT), chat.say("hello", SHORT)]
        for answer in answers:
            assert answer.take() == []
            assert not answer.wait(0.0)
        go_on.set()
        assert all(answer.text for answer in answers)


def test_a_callback_stops_its_answer_by_false_and_by_nothing_else(engine: Engine) -> None:
    seen: list[Piece] = []

    def show(piece: Piece) -> object:
        seen.append(piece)
        return False if len(seen) == 3 else None

    completion = engine.complete("hello", LONG, on_piece=show).completion()
    assert completion.finish is Finish.CANCELLED
    assert "".join(piece.text for piece in seen) == completion.text
    assert len(seen) == 3
    assert engine.complete("hello", SHORT, on_piece=lambda _: 0).completion().finish is Finish.LENGTH


def test_a_token_cancels_from_any_thread_also_while_the_prompt_is_read(engine: Engine) -> None:
    cancel = CancelToken()
    answers = [engine.complete("the river " * 150, LONG, cancel) for _ in range(3)]  # they wait for each other's room
    thread = threading.Thread(target=cancel.cancel)
    thread.start()
    thread.join()
    for answer in answers:
        assert answer.wait(DEADLINE_SECONDS)
        assert answer.completion().finish is Finish.CANCELLED
    assert engine.complete("hello", SHORT, CancelToken()).text


def test_async_for_reads_what_for_reads_in_any_loop(engine: Engine) -> None:
    async def read() -> str:
        return "".join([piece.text async for piece in engine.complete("hello", SHORT)])

    async def both() -> list[str]:
        return list(await asyncio.gather(read(), read()))

    plain = "".join(piece.text for piece in engine.complete("hello", SHORT))
    assert asyncio.run(both()) == [plain, plain]
    with ThreadPoolExecutor(1) as other:
        assert other.submit(asyncio.run, read()).result() == plain


def test_a_loop_is_free_while_an_answer_is_awaited_and_a_timeout_stops_it(engine: Engine) -> None:
    async def leave() -> int:
        answer, n_ticks = engine.complete("the river " * 90, LONG), 0

        async def read() -> None:
            with answer:
                async for _ in answer:
                    await asyncio.sleep(3600)

        reader = asyncio.create_task(read())
        while not reader.done() and n_ticks < 5:
            await asyncio.sleep(0)
            n_ticks += 1
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader, 0.05)
        assert answer.wait(DEADLINE_SECONDS)
        assert answer.completion().finish is Finish.CANCELLED
        return n_ticks

    assert asyncio.run(leave()) == 5


def test_a_load_tells_how_far_it_is_and_is_given_up_by_false(toy: Path) -> None:
    told: list[Progress] = []
    with Engine.open(toy, OPTIONS, on_progress=told.append) as engine:
        assert engine.complete("hello", SHORT).text
    assert {now.stage for now in told} == {Stage.LOAD}
    assert [now.share for now in told] == sorted(now.share for now in told)
    assert told[-1].share == 1.0
    before = set(threading.enumerate())
    with pytest.raises(GivenUp, match="given up"):
        Engine.open(toy, OPTIONS, on_progress=lambda _: False)
    assert set(threading.enumerate()) == before


# A program without a main guard, as a notebook or a short script is; its own processes must not run it again.
UNGUARDED = """
import sys
print("begun")
from edgespec import Engine, EngineOptions, GenerateOptions, tune_model
tune_model(sys.argv[1], EngineOptions(threads=1), on_progress=lambda now: now.share < 0.01)
with Engine.open(sys.argv[1], EngineOptions(ctx_size=512, threads=1)) as engine:
    print(engine.complete("hello", GenerateOptions(max_tokens=4, exact=True)).completion().finish.value)
"""


def test_a_program_needs_no_main_guard_and_its_stdout_is_its_own(toy: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(UNGUARDED, "utf-8")
    child = [sys.executable, "program.py", str(toy)]
    done = subprocess.run(child, env=environment(tmp_path), cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout, done.stderr) == (0, "begun\nlength\n", "")
