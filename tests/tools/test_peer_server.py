"""A server process: command line, requests, answers, and everything that can go wrong with it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from edgespec.backend.settings import FlashAttention, KvType, LlamaSettings
from tests.tools import fake_llama_server as fake
from tools.peer import Answer, PeerFailed
from tools.peer_server import (
    SPEC_TYPES,
    ByLength,
    Server,
    ServerPeer,
    default_flags,
    read_answer,
    request_body,
    tuned_flags,
)

PROGRAM = (sys.executable, fake.__file__)
ENDS = frozenset({fake.END_TOKEN})


def make_peer(flags: tuple[str, ...] = ()) -> ServerPeer:
    return ServerPeer("server-none", Server(PROGRAM, Path("m.gguf"), "none", flags, ENDS), 30.0)


@pytest.fixture
def peer() -> Iterator[ServerPeer]:
    one = make_peer()
    try:
        one.start()
        yield one
    finally:
        one.close()


def test_the_command_line() -> None:
    server = Server(("llama-server",), Path("m.gguf"), "ngram-mod", ("--threads", "2"), ENDS)
    words = server.command(4321)
    assert words[0] == "llama-server"
    options = dict(zip(words[1::2], words[2::2], strict=False))
    assert (options["--model"], options["--host"], options["--port"]) == ("m.gguf", "127.0.0.1", "4321")
    assert words[-4:] == ["--spec-type", "ngram-mod", "--threads", "2"]
    assert len(set(SPEC_TYPES)) == 5


def test_defaults_are_left_alone() -> None:
    assert default_flags(None) == ()
    assert default_flags(1) == ("--threads", "1")


def test_tuned_flags_follow_the_settings() -> None:
    words = tuned_flags(LlamaSettings(n_ctx=1024, n_threads=2))
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert (options["--flash-attn"], options["--threads"], options["--threads-batch"]) == ("off", "2", "2")
    assert (options["--ctx-size"], options["--cache-type-k"], options["--cache-type-v"]) == ("1024", "f16", "f16")
    assert "--gpu-layers" not in options
    words = tuned_flags(LlamaSettings(n_threads=2, n_threads_batch=4))
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert (options["--threads"], options["--threads-batch"]) == ("2", "4")
    other = LlamaSettings(
        flash_attention=FlashAttention.ON, kv_type=KvType.Q8_0, n_gpu_layers=-1, extra_buffers=False, n_threads=1
    )
    words = tuned_flags(other)
    assert words[-1] == "--no-repack"
    assert words[words.index("--gpu-layers") + 1] == "all"
    assert words[words.index("--cache-type-v") + 1] == "q8_0"


def test_a_request_is_greedy_and_reads_its_whole_prompt() -> None:
    fields = json.loads(request_body([1, 2], 16))
    assert (fields["prompt"], fields["n_predict"], fields["temperature"], fields["top_k"]) == ([1, 2], 16, 0.0, 1)
    assert (fields["cache_prompt"], fields["return_tokens"], fields["stream"]) == (False, True, False)


def test_reading_an_answer() -> None:
    body = json.dumps({"tokens": [5, 6, 0], "timings": {"prompt_n": 4, "predicted_ms": 500}}).encode()
    assert read_answer(body, ENDS, 0.75) == Answer((5, 6), True, 4, 1, 0.5, 0.75)
    for damaged in (b"", b"[]", b"{}", b'{"tokens": [], "timings": {}}', b'{"tokens": 1, "timings": {}}'):
        with pytest.raises((ValueError, KeyError, TypeError)):
            read_answer(damaged, ENDS, 0.75)


def test_answers_over_loopback(peer: ServerPeer) -> None:
    first = peer.ask([3, 4], 3)
    assert (first.tokens, first.ended, first.n_prompt, first.decode_seconds) == ((5, 6, 7), False, 2, 0.25)
    assert first.total_seconds > 0
    assert peer.ask([8], 9).tokens == (9, 10, 11, 12, 13)
    assert peer.ask([8], 9).ended
    assert peer.cpu_seconds() > 0


def test_nothing_is_left_after_close(peer: ServerPeer) -> None:
    assert peer._running is not None
    pids = (peer._running.pid, peer._running.keeper.pid)
    assert all(map(psutil.pid_exists, pids))
    peer.close()
    peer.close()
    assert not any(map(psutil.pid_exists, pids))
    assert peer.cpu_seconds() == 0.0
    with pytest.raises(PeerFailed, match="does not run"):
        peer.ask([1], 1)


def test_a_crash_is_told_with_its_code_and_last_words(peer: ServerPeer) -> None:
    with pytest.raises(PeerFailed, match=f"server-none: it ended with code {fake.EXIT_CODE}: GGML_ASSERT"):
        peer.ask([fake.CRASHES], 4)
    peer.start()
    assert peer.ask([1], 1).tokens == (2,)


@pytest.mark.parametrize(("token", "says"), [(fake.REFUSES, "status 400"), (fake.BABBLES, "no answer: KeyError")])
def test_wrong_replies(peer: ServerPeer, token: int, says: str) -> None:
    with pytest.raises(PeerFailed, match=says):
        peer.ask([token], 4)


def test_a_server_that_hangs_is_waited_for_so_long_and_no_longer(peer: ServerPeer) -> None:
    peer.patience_seconds = 0.5
    with pytest.raises(PeerFailed, match=r"no answer in 0\.5 s"):
        peer.ask([fake.HANGS], 4)


def test_a_server_that_ends_while_loading() -> None:
    peer = make_peer(flags=("dies",))
    try:
        with pytest.raises(PeerFailed, match="ended with code 3: error loading model"):
            peer.start()
    finally:
        peer.close()


def test_a_keeper_that_does_not_end_is_killed_with_its_server(
    peer: ServerPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert peer._running is not None
    keeper, pids = peer._running.keeper, (peer._running.pid, peer._running.keeper.pid)
    wait, n_waits = keeper.wait, 0

    def never_at_first(timeout: float | None = None) -> int:
        nonlocal n_waits
        n_waits += 1
        if n_waits == 1:
            raise subprocess.TimeoutExpired("keeper", timeout or 0.0)
        return wait(timeout)

    monkeypatch.setattr(keeper, "wait", never_at_first)
    peer.close()
    assert not any(map(psutil.pid_exists, pids))


def test_texts_of_each_length_have_a_server_that_starts_when_it_is_needed() -> None:
    short, long = make_peer(), make_peer()
    peer = ByLength("tuned-server-none", [(6, short), (9, long), (12, short), (14, long)], (3, 4))
    assert peer.described() == {str(up_to): ["--spec-type", "none"] for up_to in (6, 9, 12, 14)}
    try:
        peer.start()
        assert not short.is_running
        assert peer.ask([5, 6], 3).tokens == (7, 8, 9)
        assert (short.is_running, long.is_running) == (True, False)
        assert peer.ask([5, 6, 7, 8], 4).tokens == (9, 10, 11, 12)
        assert long.is_running
        assert peer.server_for(12) is short
        assert peer.server_for(99) is long
        assert peer.cpu_seconds() >= max(short.cpu_seconds(), long.cpu_seconds()) > 0.0
        with pytest.raises(PeerFailed, match="ended with code"):
            peer.ask([fake.CRASHES], 3)
        peer.start()
        assert (short.is_running, long.is_running) == (False, False)
        assert peer.ask([5, 6], 3).tokens == (7, 8, 9)
    finally:
        peer.close()
    assert (short.is_running, long.is_running) == (False, False)


def test_what_is_allowed_and_never_said_does_not_make_a_text_long() -> None:
    short, long = make_peer(), make_peer()
    peer = ByLength("tuned-server-none", [(300, short), (9999, long)], (3,))
    try:
        peer.ask([5, 6], 100_000)
        assert (short.is_running, long.is_running) == (True, False)
    finally:
        peer.close()
