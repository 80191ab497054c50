"""`python -m apps.desk`."""

from __future__ import annotations

import sys

import pytest

from apps.desk import __main__ as program
from edgespec import EngineOptions, GenerateOptions
from edgespec.errors import MissingExtra


def test_what_is_asked_for_reaches_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str | None, EngineOptions, GenerateOptions | None, bool]] = []

    def start(model: str | None, engine: EngineOptions, answers: GenerateOptions | None, offline: bool) -> int:
        seen.append((model, engine, answers, offline))
        return 0

    monkeypatch.setattr(program, "start", start)
    monkeypatch.setattr(sys, "argv", ["apps.desk", "toy.gguf", "--threads", "3"])
    assert program.main() == 0
    assert seen == [("toy.gguf", EngineOptions(threads=3), None, True)]  # the tests' environment forbids the network


def test_an_error_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def start(*_given: object) -> int:
        raise MissingExtra("cannot open a window", "something must be installed", "install it")

    monkeypatch.setattr(program, "start", start)
    monkeypatch.setattr(sys, "argv", ["apps.desk"])
    assert program.main() == MissingExtra.exit_code
    assert capsys.readouterr() == ("", "Error: cannot open a window: something must be installed; install it.\n")
