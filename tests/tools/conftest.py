"""A toy model and questions for the measuring tools; nothing reaches the user's own folders or the network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgespec.engine import Engine, EngineOptions
from tools.make_toy_model import write_toy_model

QUESTIONS = (
    ("1", "tales", "the old man and the river and the old man and the river and the old man"),
    ("2", "tales", "what does the dog say"),
    ("3", "sums", "the user asks a question and the assistant gives an answer"),
)


@pytest.fixture(scope="session")
def tools_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is measured once per model is kept for all tests."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _isolated(tools_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tools_home))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")


@pytest.fixture
def engine(toy: Path) -> Iterator[Engine]:
    with Engine.open(toy, EngineOptions(ctx_size=512, threads=1)) as opened:
        yield opened


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """A file in the format of Spec-Bench: two questions of one category, then one of another."""
    path = tmp_path / "questions.jsonl"
    lines = (json.dumps({"question_id": int(i), "category": c, "turns": [t, "why?"]}) for i, c, t in QUESTIONS)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
