"""Real servers on real sockets, over a toy model; nothing reaches the user's own folders or the network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from edgespec.engine import Engine, EngineOptions
from tests.server.serving import Running, running
from tools.make_toy_model import write_toy_model


@pytest.fixture(scope="session")
def server_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is measured once per model is kept for all tests."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _isolated(server_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(server_home))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model that never ends an answer by itself."""
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")


@pytest.fixture(scope="module")
def engine(toy: Path, server_home: Path) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESPEC_HOME", str(server_home))
        patch.setenv("EDGESPEC_OFFLINE", "1")
        opened = Engine.open(toy, EngineOptions(ctx_size=1024, threads=1))
    with opened:
        yield opened


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[Running]:
    with running(engine) as one:
        yield one


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0, timeout=30.0) as one:
        yield one
