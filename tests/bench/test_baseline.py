"""The parent's side of the library's process: a real child over a toy model, and children that misbehave."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.bench import baseline
from edgespec.bench.baseline import LibraryProcess, library_command
from edgespec.bench.library_child import Question
from edgespec.errors import EngineFailure
from tools.make_toy_model import write_toy_model

QUESTION = Question((2, 9, 30, 31), 5, ())


def fake(how: str = "works") -> LibraryProcess:
    return LibraryProcess([sys.executable, "-m", "tests.bench.fake_library", how])


@pytest.fixture(autouse=True)
def _none_left_behind() -> Iterator[None]:
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before


def test_a_real_one_answers_alike_every_time(tmp_path: Path) -> None:
    command = library_command(write_toy_model(tmp_path / "toy.gguf"), LlamaSettings(n_ctx=128))
    with closing(LibraryProcess(command)) as process:
        process.wait_until_open()
        first, again = process.ask(QUESTION), process.ask(QUESTION)
    assert len(first.token_ids) == first.passes == 5
    assert again.token_ids == first.token_ids
    assert 0.0 < first.read_seconds < first.first_token_seconds


def test_what_the_library_cannot_open_is_said(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and nothing more")
    command = library_command(tmp_path / "bad.gguf", LlamaSettings(n_ctx=128))
    with (
        closing(LibraryProcess(command)) as process,
        pytest.raises(EngineFailure, match=r"gave up: .*bad\.gguf in Llama"),
    ):
        process.wait_until_open()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("dies@start", "died: out of tiles"),
        ("dies@asked", "died: out of tiles"),
        ("leaves@asked", "died: it left with code 7"),
        ("refuses@asked", "gave up: no memory for it"),
        ("babbles@start", "spoke nonsense: no reply: 'llama says hello'"),
        ("babbles@asked", "spoke nonsense: no reply: 'llama says hello'"),
    ],
)
def test_failures_have_words(how: str, said: str) -> None:
    with closing(fake(how)) as process:
        if how.endswith("@start"):
            with pytest.raises(EngineFailure, match=said):
                process.wait_until_open()
            return
        process.wait_until_open()
        with pytest.raises(EngineFailure, match=said):
            process.ask(QUESTION)


def test_one_that_hangs_while_opening_is_given_up() -> None:
    with closing(fake("hangs@start")) as process, pytest.raises(EngineFailure, match="hung: no answer within 0 s"):
        process.wait_until_open(0.2)


def test_patience_grows_with_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(baseline, "PATIENCE_SECONDS_PER_TOKEN", 0.1)
    with closing(fake("hangs@asked")) as process:
        process.wait_until_open(60.0)
        with pytest.raises(EngineFailure, match="hung: no answer within 1 s"):  # 0.1 for each of 4 + 5 tokens
            process.ask(QUESTION)


def test_ctrl_c_breaks_off_a_wait() -> None:
    with closing(fake("hangs@asked")) as process:
        process.wait_until_open()
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            process.ask(QUESTION)
        timer.join()


def test_one_that_is_gone_may_be_closed_twice() -> None:
    with closing(fake("leaves@start")) as process:
        with pytest.raises(EngineFailure, match="left with code 7"):
            process.wait_until_open()
        process.close()
        process.close()


def test_it_ends_with_its_parent() -> None:
    program = (
        "import sys; from edgespec.bench.baseline import LibraryProcess\n"
        "process = LibraryProcess([sys.executable, '-m', 'tests.bench.fake_library', 'works'])\n"
        "process.wait_until_open()\n"
        "print(process._process.pid, flush=True)\n"
        "import os; os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    try:
        psutil.Process(int(done.stdout)).wait(timeout=30.0)
    except psutil.NoSuchProcess:
        assert done.stdout
