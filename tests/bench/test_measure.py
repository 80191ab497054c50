"""The whole run over arms that answer from a list: order, resuming, stopping, notices."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edgespec.bench.arms import Answered
from edgespec.bench.journal import Journal
from edgespec.bench.measure import Progress, left_out, measure
from edgespec.bench.plan import Amount
from edgespec.bench.prompts import Prompt, Prompts
from edgespec.bench.runs import Identity, RunFolder
from edgespec.engine import DraftChoice
from edgespec.events import Notice
from edgespec.spec.ledger import Entry

IDENTITY = Identity("model", "library", "machine", "{}", "prompts", ("off", "auto"), 64, False, "{}", "tuning", "code")
PROMPTS: Prompts = {name: tuple(Prompt(f"{name}{i}", name, name * (i + 1)) for i in range(3)) for name in "xy"}
NOTICE = Notice("code", "message")


@dataclass
class Desk:
    """Two arms that note what they are asked; the answer number `breaks_at` is Ctrl-C."""

    asked: list[tuple[str, int]] = field(default_factory=list)
    warm_ups: list[tuple[str, int, int]] = field(default_factory=list)
    settled: list[tuple[str, int, int]] = field(default_factory=list)
    breaks_at: int = -1
    progress: list[Progress] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    journal: Journal | None = None

    def run(self, folder: RunFolder, amount: Amount) -> None:
        arms = (Listed("off", self), Listed("auto", self))
        measure(PROMPTS, arms, amount, folder, encode, self.progress.append, self.notices.append, self.journal)


@dataclass
class Listed:
    name: str
    desk: Desk

    def warm_up(self, prompt: Seq[int]) -> None:
        self.desk.warm_ups.append((self.name, len(prompt), len(self.desk.asked)))

    def settle(self, prompt: Seq[int]) -> None:
        self.desk.settled.append((self.name, len(prompt), len(self.desk.asked)))

    def answer(self, prompt: Seq[int]) -> Answered:
        if len(self.desk.asked) == self.desk.breaks_at:
            raise KeyboardInterrupt
        self.desk.asked.append((self.name, len(prompt)))
        if self.desk.journal is not None:
            self.desk.journal.note(DraftChoice.parse(self.name), Entry(1.0, 0.0, 1, 1.0))
        return Answered((1, 2, 3), 0.1, 0.5, 0.55, 3, 0, 0, "length", 0.4, (NOTICE,))


def encode(prompt: Prompt) -> list[int]:
    return list(range(len(prompt.text)))


def test_every_turn_is_asked_once_in_the_order_of_the_plan(tmp_path: Path) -> None:
    desk, folder = Desk(), RunFolder(tmp_path, IDENTITY)
    desk.run(folder, Amount(2, 2))
    forward, backward = ["off", "auto"], ["auto", "off"]
    assert [name for name, _ in desk.asked] == (
        forward + backward + backward + forward + backward + forward + forward + backward
    )
    assert [length for _, length in desk.asked[::2]] == [1, 1, 2, 2, 1, 1, 2, 2]
    assert desk.progress == [Progress(i, 8, i) for i in range(1, 9)]
    assert desk.notices == [NOTICE] * 16
    assert desk.warm_ups == [("off", 1, 0), ("auto", 1, 0)]
    # Both arms before each turn, never in the middle of one.
    assert desk.settled == [(name, desk.asked[n][1], n) for n in range(0, 16, 2) for name in ("off", "auto")]
    kept = list(folder.runs)
    assert len(kept) == 16
    assert {(one.category, one.prompt_tokens, one.n_tokens, one.total_seconds, one.plain_seconds) for one in kept} == {
        (name, n, 3, 0.55, 0.4) for name in "xy" for n in (1, 2)
    }
    assert [(one.arm, one.place) for one in kept[2:4]] == [("auto", 0), ("off", 1)]


@pytest.mark.parametrize("breaks_at", range(0, 17, 3))
def test_a_run_goes_on_after_ctrl_c(tmp_path: Path, breaks_at: int) -> None:
    amount = Amount(2, 2)
    with_break = Desk(breaks_at=breaks_at)
    if breaks_at < 16:
        with pytest.raises(KeyboardInterrupt):
            with_break.run(RunFolder(tmp_path, IDENTITY), amount)
    n_whole = min(breaks_at, 16) // 2
    assert len(list(RunFolder(tmp_path, IDENTITY).runs)) == 2 * n_whole * (breaks_at < 16)
    second, folder = Desk(), RunFolder(tmp_path, IDENTITY)
    second.run(folder, amount)
    unbroken = Desk()
    unbroken.run(RunFolder(tmp_path / "other", IDENTITY), amount)
    skipped = 2 * n_whole if breaks_at < 16 else 0
    assert second.asked == unbroken.asked[skipped:]
    assert [one.n_done for one in second.progress] == list(range(1, 9))
    assert second.progress[-1].n_measured == 8 - skipped // 2
    third = Desk()
    third.run(RunFolder(tmp_path, IDENTITY), amount)
    assert third.asked == []
    assert third.warm_ups == []


def test_more_can_be_asked_for_later(tmp_path: Path) -> None:
    Desk().run(RunFolder(tmp_path, IDENTITY), Amount(1, 1))
    desk = Desk()
    desk.run(RunFolder(tmp_path, IDENTITY), Amount(2, 2))
    assert len(desk.asked) == 16 - 4


def test_prompts_are_added_until_there_are_tokens_enough(tmp_path: Path) -> None:
    desk = Desk()
    desk.run(RunFolder(tmp_path, IDENTITY), Amount(1, 2, min_tokens=12))  # 3 tokens an answer, asked twice
    assert len(desk.asked) == 2 * 2 * 2 * 2
    assert desk.progress[-1] == Progress(8, 8, 8)


def test_the_journal_is_written_after_every_turn(tmp_path: Path) -> None:
    desk = Desk(journal=Journal(), breaks_at=3)
    with pytest.raises(KeyboardInterrupt):
        desk.run(RunFolder(tmp_path, IDENTITY), Amount(2, 2))
    assert {path.name: len(path.read_text().splitlines()) for path in tmp_path.glob("ledger-*")} == {
        "ledger-off-1.jsonl": 1,
        "ledger-auto-1.jsonl": 1,
    }


def test_prompts_that_do_not_fit_are_left_out() -> None:
    prompts: Prompts = {"a": PROMPTS["x"], "b": (Prompt("long", "b", "z" * 9),)}
    assert left_out(prompts, encode, 2) == ({"a": PROMPTS["x"][:2]}, 2)
    assert left_out(prompts, encode, 9) == (prompts, 0)
    assert left_out(prompts, encode, -1) == ({}, 4)
