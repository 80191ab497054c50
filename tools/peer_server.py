"""A peer that is llama.cpp's own server, asked over loopback."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from edgespec.backend.settings import LlamaSettings
from edgespec.engine.arrangement import USUAL_ANSWER
from tools.peer import Answer, PeerFailed, cpu_seconds, last_line, without_end
from tools.peer_run import WARM_UP_TOKENS

KEEPER = Path(__file__).with_name("peer_keeper.py")
HOST = "127.0.0.1"
SPEC_TYPES = ("none", "ngram-mod", "ngram-simple", "ngram-cache", "ngram-map-k")
_POLL_SECONDS = 0.1
_END_SECONDS = 10.0


def default_flags(threads: int | None) -> tuple[str, ...]:
    """The server as it comes. `threads` only where the caller insists."""
    return ("--threads", str(threads)) if threads else ()


def tuned_flags(settings: LlamaSettings) -> tuple[str, ...]:
    """The server with the engine's own settings, as far as it has them, and ready for one user as the engine is: one
    slot, and no copies of old prompts kept.
    """
    flags = ["--flash-attn", settings.flash_attention.value]
    flags += ["--threads", str(settings.n_threads), "--threads-batch", str(settings.batch_threads)]
    flags += ["--cache-type-k", settings.kv_type.value, "--cache-type-v", settings.kv_type.value]
    flags += ["--ctx-size", str(settings.n_ctx), "--parallel", "1", "--cache-ram", "0"]
    if settings.n_gpu_layers:
        flags += ["--gpu-layers", "all" if settings.n_gpu_layers < 0 else str(settings.n_gpu_layers)]
    if settings.main_gpu >= 0:
        flags += ["--split-mode", "none", "--main-gpu", str(settings.main_gpu)]
    if not settings.extra_buffers:
        flags.append("--no-repack")
    return tuple(flags)


@dataclass(frozen=True, slots=True)
class Server:
    """What is run. program: the command that is llama-server. end_tokens: those that end an answer."""

    program: tuple[str, ...]
    model: Path
    spec_type: str
    flags: tuple[str, ...]
    end_tokens: frozenset[int]

    @property
    def choices(self) -> list[str]:
        """The part that makes it different from other servers, for the report."""
        return ["--spec-type", self.spec_type, *self.flags]

    def command(self, port: int) -> list[str]:
        fixed = ["--model", str(self.model), "--host", HOST, "--port", str(port), "--offline"]
        return [*self.program, *fixed, *self.choices]


def request_body(prompt: list[int], max_tokens: int) -> str:
    """Greedy in the cheapest way the server has. The prompt is read anew, whatever was asked before."""
    fields = {
        "prompt": prompt,
        "n_predict": max_tokens,
        "temperature": 0.0,
        "top_k": 1,
        "samplers": ["top_k"],
        "cache_prompt": False,
        "return_tokens": True,
        "stream": False,
    }
    return json.dumps(fields)


def read_answer(body: bytes, end_tokens: frozenset[int], total_seconds: float) -> Answer:
    """Raises ValueError, KeyError or TypeError for what is no answer of the server.

    Its `predicted_ms` begins when the first token is known, which the last pass over the prompt gives.
    """
    raw = json.loads(body)
    timings = raw["timings"]
    tokens, ended = without_end([int(token) for token in raw["tokens"]], end_tokens)
    return Answer(tokens, ended, int(timings["prompt_n"]), 1, float(timings["predicted_ms"]) / 1e3, total_seconds)


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


@dataclass(frozen=True, slots=True)
class _Running:
    keeper: subprocess.Popen[str]
    pid: int
    port: int
    log: IO[bytes]


class ServerPeer:
    """`patience_seconds` is for every answer, and for loading."""

    def __init__(self, name: str, server: Server, patience_seconds: float) -> None:
        self.name = name
        self.server = server
        self.patience_seconds = patience_seconds
        self._running: _Running | None = None

    def start(self) -> None:
        self.close()
        port = free_port()
        log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        keeper = subprocess.Popen(
            [sys.executable, str(KEEPER), *self.server.command(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},  # an abort would start a debugger
            encoding="utf-8",
        )
        assert keeper.stdout is not None
        first = keeper.stdout.readline().strip()
        self._running = _Running(keeper, int(first) if first.isdigit() else keeper.pid, port, log)
        self._wait_until_ready(self._running)

    def ask(self, prompt: list[int], max_tokens: int) -> Answer:
        if self._running is None:
            raise PeerFailed(self.name, "it does not run", "start it")
        body = request_body(prompt, max_tokens)
        started = time.perf_counter()
        try:
            status, reply = _exchange(self._running.port, "POST", "/completion", body, self.patience_seconds)
            if status != http.client.OK:
                raise PeerFailed(self.name, f"status {status}: {reply[:200]!r}", "run it alone with --peers")
            return read_answer(reply, self.server.end_tokens, time.perf_counter() - started)
        except TimeoutError as error:
            raise PeerFailed(self.name, f"no answer in {self.patience_seconds:g} s", "raise --patience") from error
        except (OSError, http.client.HTTPException) as error:
            raise self._ended(self._running) from error
        except (ValueError, KeyError, TypeError) as error:
            raise PeerFailed(self.name, f"it answered what is no answer: {error!r}", "build it again") from error

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._running.pid) if self._running else 0.0

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def described(self) -> list[str]:
        """For the report."""
        return self.server.choices

    def close(self) -> None:
        """The keeper ends the server when its stdin ends."""
        if self._running is None:
            return
        running, self._running = self._running, None
        assert running.keeper.stdin is not None
        assert running.keeper.stdout is not None
        with suppress(OSError):
            running.keeper.stdin.close()
        try:
            running.keeper.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            _kill(running)
        running.keeper.stdout.close()
        running.log.close()

    def _wait_until_ready(self, running: _Running) -> None:
        deadline = time.monotonic() + self.patience_seconds
        while time.monotonic() < deadline:
            if running.keeper.poll() is not None:
                raise self._ended(running)
            try:
                if _exchange(running.port, "GET", "/health", None, self.patience_seconds)[0] == http.client.OK:
                    return
            except (OSError, http.client.HTTPException):  # it does not listen yet
                pass
            time.sleep(_POLL_SECONDS)
        raise PeerFailed(self.name, f"it was not ready in {self.patience_seconds:g} s", "raise --patience")

    def _ended(self, running: _Running) -> PeerFailed:
        try:
            running.keeper.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return PeerFailed(self.name, "it closed the connection", "run it alone with --peers")
        assert running.keeper.stdout is not None
        code = running.keeper.stdout.read().strip()
        why = f"it ended with code {code}: {last_line(running.log)}"
        return PeerFailed(self.name, why, "run it alone with --peers")


class ByLength:
    """One peer made of servers for texts of different lengths, as the engine changes its settings with the length.

    servers: ascending by the tokens of prompt and answer that each is for; the last one also serves longer texts. Each
    is started when it is first needed, asked `warm_up`, and kept.
    """

    def __init__(self, name: str, servers: Sequence[tuple[int, ServerPeer]], warm_up: Sequence[int]) -> None:
        self.name = name
        self.servers = tuple(servers)
        self._warm_up = list(warm_up)

    def start(self) -> None:
        self.close()

    def ask(self, prompt: list[int], max_tokens: int) -> Answer:
        server = self.server_for(len(prompt) + min(max_tokens, USUAL_ANSWER))
        if not server.is_running:
            server.start()
            server.ask(self._warm_up, WARM_UP_TOKENS)
        return server.ask(prompt, max_tokens)

    def server_for(self, n_tokens: int) -> ServerPeer:
        return next((one for up_to, one in self.servers if n_tokens <= up_to), self.servers[-1][1])

    def cpu_seconds(self) -> float:
        return sum(one.cpu_seconds() for one in {id(one): one for _, one in self.servers}.values())

    def close(self) -> None:
        for _, one in self.servers:
            one.close()

    def described(self) -> dict[str, list[str]]:
        """For the report, by the longest text that each is for."""
        return {str(up_to): one.described() for up_to, one in self.servers}


def _kill(running: _Running) -> None:
    """The keeper had its chance to end the server. It ends by itself once the server has."""
    with suppress(psutil.Error):
        psutil.Process(running.pid).kill()
    try:
        running.keeper.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        running.keeper.kill()
        with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: there is nothing left to do
            running.keeper.wait(_END_SECONDS)


def _exchange(port: int, method: str, path: str, body: str | None, timeout_seconds: float) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_seconds)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
