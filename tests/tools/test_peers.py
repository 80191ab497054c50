"""The command: which peers there are, and a whole run with toy model and fake server."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgespec.backend.llama.native import library_fingerprint
from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.bench.place import code_fingerprint
from edgespec.errors import BadInput
from tools.peer import Answer
from tools.peer_child import LIBRARY
from tools.peer_process import ProcessPeer
from tools.peer_prompts import Arranged, Asked
from tools.peer_rows import Key, Row
from tools.peer_server import SPEC_TYPES, ByLength, ServerPeer, tuned_flags
from tools.peers import Ways, chosen, failures, identity, idle_share, machine_line, main, make_peers, rows_path


@pytest.fixture
def asked(toy: Path) -> Asked:
    settings = LlamaSettings(n_ctx=768, n_threads=2)
    return Asked(toy, (), (1,), frozenset({2}), settings, (Arranged(768, settings),), "untuned")


def test_all_peers(asked: Asked) -> None:
    peers = make_peers(asked, Ways(None, Path("llama-server"), 10.0))
    names = [peer.name for peer in peers]
    assert len(set(names)) == len(names) == 15
    servers = [peer.server for peer in peers if isinstance(peer, ServerPeer)]
    assert [one.flags for one in servers[:5]] == [()] * 5
    assert all("--flash-attn" in one.flags for one in servers[5:])
    setups = [peer.setup for peer in peers if isinstance(peer, ProcessPeer)]
    assert [one.n_lookup for one in setups if one.library == LIBRARY] == [0, 10, 2]
    assert {one.n_ctx for one in setups} == {768}
    assert {one.threads for one in setups} == {None}


def test_tuned_servers_follow_the_length_under_one_name(asked: Asked) -> None:
    on = replace(asked.settings, flash_attention=FlashAttention.ON)
    arranged = (Arranged(300, asked.settings), Arranged(600, on), Arranged(768, asked.settings))
    peers = make_peers(replace(asked, arranged=arranged), Ways(None, Path("llama-server"), 10.0))
    assert [peer.name for peer in peers] == [
        peer.name for peer in make_peers(asked, Ways(None, Path("llama-server"), 10.0))
    ]
    tuned = [peer for peer in peers if isinstance(peer, ByLength)]
    assert [peer.name for peer in tuned] == [f"tuned-server-{spec}" for spec in SPEC_TYPES]
    for peer in tuned:
        servers = [server for _, server in peer.servers]
        assert servers[0] is servers[2] is not servers[1]
        assert [one.server.flags for one in servers[:2]] == [tuned_flags(asked.settings), tuned_flags(on)]
        assert [up_to for up_to, _ in peer.servers] == [300, 600, 768]
    assert machine_line(replace(asked, arranged=arranged)).count("texts of up to") == 3
    assert "texts of up to" not in machine_line(asked)


def test_without_a_server_program_the_others_are_left(asked: Asked) -> None:
    names = [peer.name for peer in make_peers(asked, Ways(None, None, 10.0))]
    assert names == ["llama", "llama-lookup", "llama-lookup-2", "edgespec-off", "edgespec-auto"]


def test_choosing_peers(asked: Asked) -> None:
    peers = make_peers(asked, Ways(None, Path("llama-server"), 10.0))
    assert chosen(peers, "") == peers
    assert [peer.name for peer in chosen(peers, "edgespec,llama")] == ["llama", "edgespec-off", "edgespec-auto"]
    assert len(chosen(peers, "server")) == 5
    assert [peer.name for peer in chosen(peers, "tuned-server-none,llama-l")] == [
        "llama-lookup",
        "llama-lookup-2",
        "tuned-server-none",
    ]
    with pytest.raises(BadInput, match="choose from llama,"):
        chosen(peers, "llama,vllm")


def test_rows_of_other_runs_are_kept_apart(asked: Asked, tmp_path: Path) -> None:
    server = tmp_path / "llama-server"
    server.write_text("one")
    ways = Ways(None, server, 10.0)
    first = identity(asked, ways, 16)
    os.utime(server, (1, 1))
    others = [
        identity(asked, ways, 16),
        identity(asked, ways, 32),
        identity(asked, replace(ways, threads=1), 16),
        identity(asked, replace(ways, server=None), 16),
        identity(replace(asked, tuning="tuned"), ways, 16),
        identity(replace(asked, settings=replace(asked.settings, n_threads=1)), ways, 16),
    ]
    assert len({rows_path(one) for one in [first, *others]}) == 7
    assert rows_path(identity(asked, ways, 16)) == rows_path(others[0])
    assert first["library"] == library_fingerprint()
    assert first["edgespec"] == code_fingerprint()


def answered(seconds: float, others: float) -> Row:
    return Row(Key("a", "x", 0), "q", "qa", 3, Answer((1,), False, 3, 1, 0.0, seconds), "", others)


def test_failures_are_counted_and_named() -> None:
    failed = [Row(Key(str(i), "x", 0), "q", "qa", 3, None, "x: it hung; wait.", 0.0) for i in range(2)]
    assert failures([answered(1.0, 0.0), *failed]) == ["x: it hung; wait. (2 of its answers missing)"]
    assert failures([]) == []


def test_the_share_of_waiting_peers() -> None:
    assert idle_share([answered(3.0, 0.5), answered(1.0, 0.5)]) == 0.25
    assert idle_share([]) == 0.0


def test_servers_that_are_not_built_are_an_error_with_a_remedy(toy: Path, questions: Path) -> None:
    result = CliRunner().invoke(main, ["--prompts", str(questions), "--model", str(toy)])
    assert result.exit_code == BadInput.exit_code
    assert "tools/build_server.py" in result.stderr


def test_a_run_and_its_resumption(toy: Path, questions: Path, tmp_path: Path) -> None:
    out, rows = tmp_path / "out.json", tmp_path / "rows.jsonl"
    arguments = ["--prompts", str(questions), "--model", str(toy), "--n-prompts", "2", "--max-tokens", "16"]
    arguments += ["--threads", "1", "--repeats", "1", "--peers", "llama,edgespec", "--rows", str(rows)]
    result = CliRunner().invoke(main, [*arguments, "--json", str(out)])
    assert result.exit_code == 0, result.output
    written = json.loads(out.read_text(encoding="utf-8"))
    peers = written["views"]["all prompts"]["peers"]
    assert list(peers) == ["llama", "edgespec-off", "edgespec-auto"]
    assert all(peer["n_answers"] == 2 for peer in peers.values())
    assert peers["edgespec-off"]["total"] == pytest.approx({"ratio": 1.0, "low": 1.0, "high": 1.0})
    assert written["failures"] == []
    assert written["settings"]["n_threads"] == 1
    before = rows.read_text(encoding="utf-8")
    assert len(before.splitlines()) == 1 + 6
    other = CliRunner().invoke(main, [*arguments, "--max-tokens", "17"])
    assert other.exit_code == BadInput.exit_code
    assert "other max_tokens" in other.stderr
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 0, again.output
    assert again.stdout == result.stdout
    assert rows.read_text(encoding="utf-8") == before
    fresh = CliRunner().invoke(main, [*arguments[:-4], "--peers", "llama", "--rows", str(rows), "--fresh"])
    assert fresh.exit_code == 0, fresh.output
    assert len(rows.read_text(encoding="utf-8").splitlines()) == 1 + 2


def test_a_dead_server_costs_its_rows_only(toy: Path, questions: Path, tmp_path: Path) -> None:
    arguments = ["--prompts", str(questions), "--model", str(toy), "--n-prompts", "2", "--max-tokens", "8"]
    arguments += ["--threads", "1", "--repeats", "1", "--peers", "llama,server-none", "--server", sys.executable]
    result = CliRunner().invoke(main, [*arguments, "--rows", str(tmp_path / "rows.jsonl")])
    assert result.exit_code == 0, result.output
    assert "missing: server-none: it ended with code 2" in result.stderr
    assert "(2 of its answers missing)" in result.stderr
