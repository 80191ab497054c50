"""Windows without a screen. The platform is chosen before anything of Qt is imported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["QT_QPA_PLATFORM"] = "offscreen"

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from apps.desk.binding import require_binding
from tools.make_toy_model import write_toy_model


@pytest.fixture(scope="session")
def desk_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is measured once per model is kept for all tests."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session", autouse=True)
def _sound_binding() -> None:
    require_binding()


@pytest.fixture(autouse=True)
def _isolated(desk_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing reaches the user's own folders or the network."""
    monkeypatch.setenv("EDGESPEC_HOME", str(desk_home))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@pytest.fixture
def parent(qtbot: QtBot) -> QWidget:
    """For dialogs; it lives as long as the test."""
    widget = QWidget()
    qtbot.addWidget(widget)
    return widget


@pytest.fixture(scope="session")
def toy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model that llama.cpp runs, and that never ends an answer by itself."""
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")
