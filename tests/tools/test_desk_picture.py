"""The picture of the window, of a toy model that never was measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEADLINE_SECONDS = 60.0


def test_a_picture_is_drawn_without_a_screen(toy: Path, tmp_path: Path) -> None:
    output = tmp_path / "images" / "desk.png"
    command = [sys.executable, "-m", "tools.desk_picture", str(toy), "--output", str(output), "--threads", "1"]
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert output.read_bytes().startswith(b"\x89PNG")
    assert output.stat().st_size < 200_000


def test_what_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tools.desk_picture",
        str(tmp_path / "no.gguf"),
        "--output",
        str(tmp_path / "x.png"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 1
    assert "no.gguf" in done.stderr
    assert not (tmp_path / "x.png").exists()
