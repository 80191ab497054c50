"""The command in a process of its own, as programs start it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from edgespec.cli import serve as module
from edgespec.engine import EngineOptions
from tests.cli.conftest import Invoke

DEADLINE_SECONDS = 60.0
COMMAND = (sys.executable, "-c", "from edgespec.cli.main import main; main()", "serve")


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Ended, if it has not ended by itself."""
    command = [*COMMAND, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def handshake_of(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    parsed: dict[str, str] = json.loads(process.stdout.readline())
    return parsed


def test_a_sidecar_answers_with_the_key_it_drew_and_ends_with_its_input(toy: Path) -> None:
    with started(toy, "--sidecar", "--draft", "off", "--max-tokens", "5", "--seed", "3") as process:
        said = handshake_of(process)
        with httpx.Client(base_url=said["url"], trust_env=False, timeout=DEADLINE_SECONDS) as client:
            assert client.get("/health").json()["version"] == said["edgespec"]
            assert client.post("/v1/completions", json={"prompt": "the"}).status_code == 401
            client.headers["authorization"] = f"Bearer {said['key']}"
            body = client.post("/v1/completions", json={"prompt": "the"}).json()
        assert body["usage"]["completion_tokens"] == 5
        assert body["edgespec"]["seed"] == 3
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE_SECONDS) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""  # the handshake was all
        assert process.stderr is not None
        assert "ending" in process.stderr.read()


def test_a_key_of_the_environment_is_not_repeated(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_KEY", "of-the-parent")
    with started(toy, "--sidecar") as process:
        said = handshake_of(process)
        assert "key" not in said
        headers = {"authorization": "Bearer of-the-parent"}
        response = httpx.get(f"{said['url']}/v1/models", headers=headers, trust_env=False, timeout=DEADLINE_SECONDS)
        assert response.status_code == 200


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_server_is_ended_by_signals_with_nothing_on_stdout(toy: Path, sent: signal.Signals, code: int) -> None:
    with started(toy, "--port", "0") as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "serving" in line)
        assert line.startswith(f"serving {toy.stem} at http://127.0.0.1:")
        url = line.rstrip().removesuffix("/v1").rpartition(" ")[2]
        assert next(process.stderr) == f"a page to chat with it: {url}/\n"
        process.send_signal(sent)
        assert process.wait(DEADLINE_SECONDS) == code
        assert process.stdout is not None
        assert process.stdout.read() == ""
        assert "Traceback" not in process.stderr.read()


def test_an_open_door_is_refused_before_anything_is_loaded(invoke: Invoke) -> None:
    result = invoke("serve", "no-such-model", "--host", "0.0.0.0")
    assert result.exit_code == 13
    assert "there is no key" in result.stderr


def test_values_that_cannot_be_are_wrong_usage(invoke: Invoke) -> None:
    assert invoke("serve", "--port", "70000").exit_code == 2
    assert invoke("serve", "--max-requests", "0").exit_code == 2
    assert next(one.default for one in module.serve.params if one.name == "parallel") == EngineOptions().parallel
    result = invoke("serve", "no-such-model", "--parallel", "33")
    assert result.exit_code == 13
    assert "--parallel 33" in result.stderr


def test_a_port_in_use_is_said_before_anything_is_loaded(invoke: Invoke) -> None:
    from edgespec.server.running import listen

    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        result = invoke("serve", "no-such-model", "--port", port)
    assert result.exit_code == 13
    assert f"port {port}" in result.stderr


def test_what_is_not_installed_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGES", ("starlette", "no_such_package"))
    result = invoke("serve")
    assert result.exit_code == 14
    assert "no_such_package" in result.stderr
    assert "pip install starlette uvicorn" in result.stderr
