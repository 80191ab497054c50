"""The order of a run, resuming it, and peers that fail."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tools.peer import Answer, PeerFailed
from tools.peer_rows import Key, Prompt, Row, RowFile
from tools.peer_run import MAX_FAILURES, measure, turns

PROMPTS = [Prompt(str(i), "qa", (i, i + 1)) for i in range(6)]
WARM_UP = (99,)


class Scripted:
    """A peer in this process. Prompts that begin with one of `fails_on` fail; it reads `n_forgotten` tokens less."""

    def __init__(self, name: str, fails_on: tuple[int, ...] = (), n_forgotten: int = 0) -> None:
        self.name = name
        self.events: list[str] = []
        self._fails_on = fails_on
        self._n_forgotten = n_forgotten
        self._seconds = 0.0

    def start(self) -> None:
        self.events.append("start")

    def ask(self, prompt: list[int], max_tokens: int) -> Answer:
        self.events.append(str(prompt[0]))
        self._seconds += 1.0
        if prompt[0] in self._fails_on:
            raise PeerFailed(self.name, "it hung", "wait")
        return Answer((1,) * max_tokens, False, len(prompt) - self._n_forgotten, 1, 1.0, 1.0)

    def cpu_seconds(self) -> float:
        return self._seconds

    def close(self) -> None:
        self.events.append("close")


def run(peers: list[Scripted], path: Path, n_repeats: int = 1) -> list[Row | None]:
    wanted = turns(PROMPTS, [peer.name for peer in peers], n_repeats)
    return list(measure(wanted, peers, WARM_UP, 3, RowFile(path, {}), lambda _seconds: None))


def test_peers_are_interleaved_and_begin_in_turn() -> None:
    found = turns(PROMPTS[:3], ["a", "b"], 2)
    assert [(turn.repeat, turn.prompt.id + turn.peer) for turn in found] == [
        *((0, one) for one in ("0a", "0b", "1b", "1a", "2a", "2b")),
        *((1, one) for one in ("0b", "0a", "1a", "1b", "2b", "2a")),
    ]


def test_every_repeat_starts_the_peers_anew_and_warms_them(tmp_path: Path) -> None:
    peer = Scripted("a")
    rows = run([peer], tmp_path / "rows", n_repeats=2)
    once = ["start", "99", "0", "1", "2", "3", "4", "5", "close"]
    assert peer.events == once * 2
    assert [row.key.repeat for row in rows if row is not None] == [0] * 6 + [1] * 6


def test_what_is_on_disk_is_not_asked_again(tmp_path: Path) -> None:
    wanted = turns(PROMPTS, ["a"], 1)
    with closing(measure(wanted, [Scripted("a")], WARM_UP, 3, RowFile(tmp_path / "rows", {}))) as stopped:
        for _ in range(4):
            next(stopped)
    peer = Scripted("a")
    rows = run([peer], tmp_path / "rows")
    assert peer.events == ["start", "99", "4", "5", "close"]
    assert [row is None for row in rows] == [True] * 4 + [False] * 2


def test_a_finished_run_starts_nothing(tmp_path: Path) -> None:
    run([Scripted("a")], tmp_path / "rows")
    peer = Scripted("a")
    assert run([peer], tmp_path / "rows") == [None] * len(PROMPTS)
    assert peer.events == ["close"]


def test_a_stopped_run_closes_its_peers(tmp_path: Path) -> None:
    peer = Scripted("a")
    stopped = measure(turns(PROMPTS, ["a"], 1), [peer], WARM_UP, 3, RowFile(tmp_path / "rows", {}))
    next(stopped)
    with pytest.raises(KeyboardInterrupt):
        stopped.throw(KeyboardInterrupt())
    assert peer.events[-1] == "close"


def test_a_failure_costs_one_row_of_one_peer(tmp_path: Path) -> None:
    peers = [Scripted("a", fails_on=(2,)), Scripted("b")]
    rows = [row for row in run(peers, tmp_path / "rows") if row is not None]
    assert len(rows) == 12
    assert [(row.key.peer, row.prompt_id, row.failure) for row in rows if row.answer is None] == [
        ("a", "2", "a: it hung; wait.")
    ]
    assert peers[0].events == ["start", "99", "0", "1", "2", "close", "start", "99", "3", "4", "5", "close"]


def test_a_peer_that_always_fails_is_given_up(tmp_path: Path) -> None:
    peer = Scripted("a", fails_on=tuple(range(6)))
    rows = run([peer], tmp_path / "rows")
    assert [row is None for row in rows] == [False] * MAX_FAILURES + [True] * (6 - MAX_FAILURES)
    assert peer.events.count("start") == MAX_FAILURES


def test_a_peer_that_did_not_read_the_whole_prompt_is_named(tmp_path: Path) -> None:
    (row, *_) = run([Scripted("a", n_forgotten=1)], tmp_path / "rows")
    assert row is not None
    assert "read 1 tokens of a prompt of 2" in row.failure
    assert RowFile(tmp_path / "rows", {}).rows([Key(PROMPTS[0].digest, "a", 0)])[0].answer is None


def test_processor_time_of_the_others_is_noted(tmp_path: Path) -> None:
    (row, *_) = run([Scripted("a")], tmp_path / "rows")
    assert row is not None
    assert row.others_cpu_seconds == 0.0


def test_before_each_answer_the_threads_of_the_last_one_fall_asleep(tmp_path: Path) -> None:
    peers = [Scripted("a"), Scripted("b")]

    def pause(seconds: float) -> None:
        assert seconds >= 0.05
        for peer in peers:
            peer.events.append("pause")

    wanted = turns(PROMPTS[:2], ["a", "b"], 1)
    list(measure(wanted, peers, WARM_UP, 3, RowFile(tmp_path / "rows", {}), pause))
    assert [[one for one in peer.events if one != "99"] for peer in peers] == [
        ["start", "pause", "0", "pause", "pause", "pause", "1", "close"],
        ["pause", "start", "pause", "0", "pause", "1", "pause", "close"],
    ]


def test_one_that_cannot_be_closed_does_not_keep_the_others_open(tmp_path: Path) -> None:
    class Stuck(Scripted):
        def close(self) -> None:
            super().close()
            raise subprocess.TimeoutExpired("stuck", 10.0)

    peers = [Scripted("a"), Stuck("b"), Stuck("c"), Scripted("d")]
    with pytest.raises(subprocess.TimeoutExpired):
        run(peers, tmp_path / "rows")
    assert [peer.events[-1] for peer in peers] == ["close"] * 4
