"""A model for a command: said, asked, shown on stderr, and refused where it must be."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from edgespec.cli.downloads import ensure_model
from edgespec.errors import LicenceNotAccepted, NetworkUnavailable
from edgespec.library.package import Pip
from tests.library.toy_card import CARD_TEXT, toy_card
from tests.library.toy_gguf import write_model
from tests.library.toy_hub import install_hub, put
from tests.library.toy_wheel import n_calls, toy_pip, write_wheel


@dataclass
class Desk:
    """A home with one user card, whose model is in a folder of wheels, and a terminal that is watched."""

    wheels: Path
    home: Path
    content: bytes
    written: io.StringIO

    @property
    def console(self) -> Console:
        return Console(file=self.written, force_terminal=True, width=100)

    @property
    def screen(self) -> str:
        return self.written.getvalue()

    def write_card(self, extra: str = "") -> None:
        part = write_wheel(self.wheels, "toy-model", "toy.gguf", self.content)
        card = toy_card(self.content, part)
        text = CARD_TEXT.replace("0" * 64, card.sha256).replace("= 1000", f"= {card.size_bytes}")
        folder = self.home / "config" / "models"
        folder.mkdir(parents=True, exist_ok=True)
        text = text.replace("wheel_bytes = 10", f"wheel_bytes = {part.wheel_bytes}")
        (folder / "toy.toml").write_text(text.replace("[[sources]]", f"{extra}\n[[sources]]", 1), "utf-8")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    for name, value in {
        "EDGESPEC_HOME": "home",
        "HF_HUB_CACHE": "hub",
        "LLAMA_CACHE": "flat",
        "OLLAMA_MODELS": "ollama",
        "HOME": "user",
        "USERPROFILE": "user",
    }.items():
        monkeypatch.setenv(name, str(tmp_path / name.lower() / value))
    wheels = tmp_path / "wheels"
    monkeypatch.setattr("edgespec.library.package.find_pip", lambda: pytest.fail("the real pip was looked for"))
    monkeypatch.setattr(ensure_model.__kwdefaults__, "x", None, raising=False)
    content = write_model(tmp_path / "source.gguf").read_bytes()
    desk = Desk(wheels, Path(tmp_path / "edgespec_home" / "home"), content, io.StringIO())
    desk.write_card()
    return desk
