from __future__ import annotations

from pathlib import Path

import pytest

from apps.desk.listing import offers
from tests.cli.toy_home import make_toy_home
from tests.library.toy_gguf import write_model


def test_cards_and_files_of_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_toy_home(monkeypatch, tmp_path)
    home.write_card(guarded=True)
    home.wheels.joinpath("unused").touch()
    (tmp_path / "flat").mkdir()
    write_model(tmp_path / "flat" / "other-Q4_0.gguf", template="{{ y }}")
    by_name = {offer.model: offer for offer in offers()}
    toy, other = by_name["toy"], by_name["llama.cpp:other-Q4_0"]
    assert not toy.is_here
    assert toy.licence_notice == "Be kind to the toy."
    assert toy.licence_url
    assert other.is_here
    assert other.where == "llama.cpp"
    home.installed.parent.mkdir(parents=True)
    home.installed.write_bytes(home.content)
    toy = next(offer for offer in offers() if offer.model == "toy")
    assert toy.is_here
    assert toy.licence_notice == ""  # it was accepted when it was downloaded
