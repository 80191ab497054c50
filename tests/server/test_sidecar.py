"""The handshake, and that the server never outlives its parent: real processes, killed with no chance to say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from edgespec import __version__
from edgespec.server import sidecar
from edgespec.server.sidecar import PROTOCOL, Handshake, Leash
from tests.server.serving import DEADLINE_SECONDS, port_is_open, until

# Starts the sidecar as a program would, and hands its first line on.
PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE if sys.argv[1] == "pipe" else None, stdout=subprocess.PIPE)
sys.stdout.write(child.stdout.readline().decode())
sys.stdout.flush()
child.wait()
"""


def test_the_handshake_is_one_json_line() -> None:
    line = Handshake("::1", 7, "toy").line()
    assert line.endswith("}\n")
    assert json.loads(line) == {
        "edgespec": __version__, "protocol": PROTOCOL, "pid": os.getpid(), "url": "http://[::1]:7", "host": "::1",
        "port": 7, "model": "toy",
    }  # fmt: skip
    assert json.loads(Handshake("127.0.0.1", 7, "toy", "drawn").line())["key"] == "drawn"


def test_the_end_of_standard_input_lets_go_first_and_then_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "GRACE_SECONDS", 0.01)
    acts: list[str] = []
    dead = threading.Event()

    def die() -> None:
        acts.append("die")
        dead.set()

    reader, writer = os.pipe()
    Leash(reader, lambda: acts.append("let go"), die).hold()
    os.write(writer, b"whatever a parent may write\n")
    assert not dead.wait(0.05)
    os.close(writer)
    assert dead.wait(DEADLINE_SECONDS)
    assert acts == ["let go", "die"]
    os.close(reader)


@pytest.mark.parametrize("stdin", ["pipe", "inherited"])
def test_a_parent_killed_takes_the_sidecar_with_it_and_frees_its_port(toy: Path, stdin: str) -> None:
    """inherited: somebody else holds the other end, so that only the parent's own end tells."""
    command = [sys.executable, "-c", "from edgespec.cli.main import main; main()", "serve", str(toy), "--sidecar"]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, stdin, *command, "--threads", "1", "--ctx-size", "256"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with parent:
        assert parent.stdout is not None
        handshake = json.loads(parent.stdout.readline())
        server = psutil.Process(handshake["pid"])
        assert port_is_open(handshake["port"])
        parent.kill()
        until(lambda: not alive(server))
        until(lambda: not port_is_open(handshake["port"]))


def alive(process: psutil.Process) -> bool:
    """A zombie that nobody waits for is not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
