from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tools.page_picture import SIZE, main

PNG = b"\x89PNG\r\n\x1a\n"


def size_of(picture: bytes) -> tuple[int, int]:
    """Of a PNG: its first chunk begins with width and height."""
    assert picture.startswith(PNG)
    return int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")


def test_a_picture_for_light_and_one_for_dark(toy: Path, tmp_path: Path) -> None:
    arguments = ["--model", str(toy), "--threads", "1", "--draft", "off", "--question", "hello", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    light, dark = ((tmp_path / name).read_bytes() for name in ("page.png", "page-dark.png"))
    assert size_of(light) == size_of(dark) == SIZE
    assert light != dark
