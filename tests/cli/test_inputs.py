from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.cli.inputs import checked_argument, decoded, read_text, without_last_newline
from edgespec.errors import BadInput


@pytest.mark.parametrize(
    ("text", "expected"), [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("", ""), (" \n", " ")]
)
def test_one_line_end_goes(text: str, expected: str) -> None:
    assert without_last_newline(text) == expected


def test_a_file_is_read_as_utf8_with_or_without_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbfcaf\xc3\xa9\r\n")
    assert read_text(path, "x") == "café\r\n"
    assert decoded("café".encode(), "x") == "café"


def test_what_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"ab\xff")
    with pytest.raises(BadInput, match=r"--predict .*x\.txt: byte 2 is not UTF-8"):
        read_text(path, "--predict")
    with pytest.raises(BadInput, match="the prompt: character 1"):
        checked_argument("a\udcff", "the prompt")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--predict"):
        read_text(tmp_path / "none", "--predict")
    with pytest.raises(BadInput, match=r"--predict"):
        read_text(tmp_path, "--predict")
