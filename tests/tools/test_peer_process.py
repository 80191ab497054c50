"""A library in a child process: the real child with a toy model, and children that misbehave."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from edgespec.engine import DraftChoice, Engine, GenerateOptions
from tools import peer_process
from tools.peer import PeerFailed
from tools.peer_child import EDGESPEC, LIBRARY, Setup
from tools.peer_process import ProcessPeer

PROMPT = [5, 6, 7, 8, 9, 5, 6, 7]


def setup_of(toy: Path, library: str, ends: tuple[int, ...] = (), n_lookup: int = 0) -> Setup:
    return Setup(library, str(toy), 512, ends, 1, n_lookup, DraftChoice.OFF)


def test_a_setup_comes_back_from_its_line() -> None:
    setup = Setup(EDGESPEC, "m.gguf", 512, (1, 2), 3, 0, DraftChoice.AUTO)
    assert Setup.from_json(setup.to_json()) == setup


def test_edgespec_in_a_child_says_what_it_says_here(toy: Path, engine: Engine) -> None:
    options = GenerateOptions(max_tokens=12, draft=DraftChoice.OFF)
    with engine.submit(engine.new_sequence(), False, PROMPT, options) as here:
        wanted = here.completion()
    peer = ProcessPeer("edgespec-off", setup_of(toy, EDGESPEC), 60.0)
    try:
        peer.start()
        answers = [peer.ask(PROMPT, 12) for _ in range(2)]
        assert peer.cpu_seconds() > 0
    finally:
        peer.close()
    for answer in answers:
        assert answer.tokens == wanted.token_ids
        assert answer.n_prompt == len(PROMPT)
        assert 1 <= answer.n_first <= answer.n_generated
        assert 0 <= answer.decode_seconds <= answer.total_seconds


@pytest.mark.parametrize("n_lookup", [0, 10])
def test_llama_cpp_python_in_a_child(toy: Path, n_lookup: int) -> None:
    peer = ProcessPeer("llama", setup_of(toy, LIBRARY, n_lookup=n_lookup), 60.0)
    try:
        peer.start()
        first, again = peer.ask(PROMPT, 12), peer.ask(PROMPT, 12)
    finally:
        peer.close()
    assert (len(first.tokens), first.ended, first.n_prompt, first.n_first) == (12, False, len(PROMPT), 1)
    assert again.tokens == first.tokens
    ends = ProcessPeer("llama", setup_of(toy, LIBRARY, (first.tokens[3],), n_lookup), 60.0)
    try:
        ends.start()
        short = ends.ask(PROMPT, 12)
    finally:
        ends.close()
    assert (short.tokens, short.ended) == (first.tokens[: first.tokens.index(first.tokens[3])], True)


def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, patience_seconds: float = 30.0) -> ProcessPeer:
    path = tmp_path / "child.py"
    path.write_text("import os, sys, time\nsys.stdin.readline()\n" + text, encoding="utf-8")
    monkeypatch.setattr(peer_process, "CHILD", path)
    return ProcessPeer("llama", setup_of(path, LIBRARY), patience_seconds)


def fails(peer: ProcessPeer, match: str) -> None:
    def use() -> None:
        peer.start()
        peer.ask([1], 1)

    try:
        with pytest.raises(PeerFailed, match=match):
            use()
    finally:
        peer.close()


READY = "print('ready', flush=True)\nsys.stdin.readline()\n"


def test_a_child_that_cannot_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(child(tmp_path, monkeypatch, "sys.exit('no such model')"), "ended with code 1: no such model")


def test_a_child_that_dies_while_answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(child(tmp_path, monkeypatch, READY + "os._exit(9)"), "ended with code 9")


def test_a_child_that_babbles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(child(tmp_path, monkeypatch, READY + "print('{}', flush=True)"), "it answered")


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = child(tmp_path, monkeypatch, "time.sleep(60)", patience_seconds=0.5)
    try:
        with pytest.raises(PeerFailed, match=r"no answer in 0\.5 s"):
            peer.start()
        assert peer._running is not None
        pid = peer._running.process.pid
    finally:
        peer.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(PeerFailed, match="does not run"):
        peer.ask([1], 1)


def test_a_child_that_outlives_its_end_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = child(tmp_path, monkeypatch, READY)
    peer.start()
    assert peer._running is not None
    process = peer._running.process
    wait = process.wait

    def never(timeout: float | None = None) -> int:
        wait(timeout)
        raise subprocess.TimeoutExpired("child", timeout or 0.0)

    monkeypatch.setattr(process, "wait", never)
    peer.close()
    assert peer.cpu_seconds() == 0.0
