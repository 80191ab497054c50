"""The command line over the real engine and a toy model that is written in a second."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgespec.cli.main import cli
from edgespec.cli.opening import open_model
from edgespec.cli.options import ModelFlags
from edgespec.cli.paint import Look
from edgespec.cli.screen import Screen
from edgespec.cli.session import Session
from edgespec.engine import GenerateOptions
from tools.make_toy_model import SHAPES, Kind, write_toy_model

Invoke = Callable[..., Result]


class PressesCtrlC(io.StringIO):
    """Standard output that brings Ctrl-C with every text that comes while somebody minds it."""

    def write(self, text: str) -> int:
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # else it would end the test run
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


@pytest.fixture(scope="session")
def session_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is measured once per model is kept for the whole run."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _isolated(session_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the person who runs the tests reaches them, and none of them reaches the network."""
    for name in [name for name in os.environ if name.startswith("EDGESPEC_") or name in ("NO_COLOR", "FORCE_COLOR")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EDGESPEC_HOME", str(session_home))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")
    monkeypatch.setenv("EDGESPEC_THREADS", "1")
    monkeypatch.setenv("EDGESPEC_CTX_SIZE", "512")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the configuration file in a home of the test's own."""
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    path = tmp_path / "config" / "config.toml"
    path.parent.mkdir()
    return path


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model that never ends an answer by itself."""
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")


@pytest.fixture(scope="session")
def other_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that says other things."""
    return write_toy_model(tmp_path_factory.mktemp("models") / "other.gguf", seed=1)


@pytest.fixture(scope="session")
def base_toy(tmp_path_factory: pytest.TempPathFactory, toy: Path) -> Path:
    """The same model without a chat template."""
    path = tmp_path_factory.mktemp("models") / "base.gguf"
    path.write_bytes(toy.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.no_such_thing"))
    return path


@pytest.fixture(scope="session")
def boundless_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that sets no limit to the context."""
    shape = replace(SHAPES[Kind.LLAMA], n_ctx=2**31 - 1)
    return write_toy_model(tmp_path_factory.mktemp("models") / "boundless.gguf", shape=shape)


@pytest.fixture
def invoke() -> Invoke:
    """Run `edgespec` with these arguments, its standard input being a pipe."""

    def run(*arguments: object, stdin: str | bytes = b"") -> Result:
        result = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def session(toy: Path) -> Iterator[Session]:
    """A chat with the toy model, greedy and short."""
    flags = ModelFlags(
        ctx_size=512,
        threads=1,
        gpu_layers=0,
        draft_model=None,
        draft_device="auto",
        corpus=(),
        remember=False,
        offline=True,
    )
    screen = Screen(Look(tints=False, styled=False))
    opened = open_model(str(toy), flags, screen)
    options = GenerateOptions(max_tokens=24)
    one = Session(opened, opened.engine.conversation(), options, screen, lambda name: open_model(name, flags, screen))
    yield one
    one.close()
