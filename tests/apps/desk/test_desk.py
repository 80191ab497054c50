"""What a user can do, without a window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from apps.desk.desk import SAME_AGAIN, Desk, drawn
from apps.desk.listing import Offer
from edgespec import DraftChoice, Notice, SamplingSettings
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import DraftTree
from tests.apps.desk.toy_desk import SHORT, Toy, own_threads, settled, toy_desk, until


class Broken:
    """A drafter that raises whenever it is asked."""

    name = "broken"
    needs = Needs.TOKENS

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None: ...

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        raise ValueError("no guess")

    def behind(self, sequence: SequenceId) -> int:
        return 0

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None: ...

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None: ...

    def end(self, sequence: SequenceId) -> None: ...


def test_nothing_is_asked_without_a_model_or_a_question() -> None:
    desk = Desk(Toy().means())
    assert not desk.ask("Why?")
    desk.open("toy")
    settled(desk)
    assert not desk.ask(" \n")
    assert desk.ask("Why?")
    assert not desk.ask("And?")  # one at a time in a chat
    desk.close()
    until(desk, lambda: desk.closed)
    assert not own_threads()


def test_undo_takes_back_what_was_said() -> None:
    with toy_desk() as (desk, _toy):
        desk.ask("First?")
        settled(desk)
        first = desk.current.turns[0].text
        desk.ask("Second?")
        settled(desk)
        assert desk.undo() == "Second?"
        assert len(desk.current.messages()) == 2
        desk.undo()
        assert not desk.can_undo
        desk.ask("First?")
        settled(desk)
        assert desk.current.turns[0].text == first  # greedy, and the model has forgotten the rest


def test_regenerating_takes_the_next_seed() -> None:
    with toy_desk() as (desk, _toy):
        desk.options = replace(SHORT, sampling=replace(SHORT.sampling, temperature=1.0, seed=(1 << 64) - 1))
        desk.ask("Why?")
        settled(desk)
        first = desk.current.turns[0].text
        desk.regenerate()
        settled(desk)
        assert desk.options.sampling.seed == 0
        assert len(desk.current.turns) == 1
        assert desk.current.turns[0].text != first
        assert not desk.notices


def test_at_temperature_0_it_says_that_nothing_will_change() -> None:
    with toy_desk() as (desk, _toy):
        desk.regenerate()  # nothing was asked yet
        desk.ask("Why?")
        settled(desk)
        first = desk.current.turns[0].text
        for _ in range(2):
            desk.regenerate()
            settled(desk)
        assert desk.current.turns[0].text == first
        assert desk.notices == [SAME_AGAIN]
        desk.ask("And?")
        assert not desk.notices
        settled(desk)


def test_chats_are_begun_and_dropped() -> None:
    with toy_desk() as (desk, _toy):
        first = desk.current
        desk.new_chat()
        assert desk.current is first  # which is empty
        desk.ask("Why?")
        desk.close_chat()
        assert desk.current is first  # its answer runs
        settled(desk)
        desk.new_chat()
        assert [chat.number for chat in desk.chats] == [1, 2]
        desk.go_to(first)
        desk.close_chat()
        desk.close_chat()
        assert [chat.number for chat in desk.chats] == [3]
        settled(desk)


def test_a_drafter_that_fails_costs_no_answer() -> None:
    with toy_desk() as (desk, _toy):
        desk.ask("Why?")
        settled(desk)
        healthy = desk.current.turns[0].text
    with toy_desk(Toy(drafters=(Broken(),))) as (desk, _toy):
        desk.ask("Why?")
        settled(desk)
        turn = desk.current.turns[0]
        assert turn.text == healthy
        assert turn.completion is not None
        notice = turn.completion.notices[0]
        assert isinstance(notice, Notice)
        assert "broken" in notice.message


def test_a_second_model_that_is_not_there_is_an_error_with_a_remedy() -> None:
    with toy_desk(options=replace(SHORT, draft=DraftChoice.MODEL)) as (desk, _toy):
        desk.ask("Why?")
        settled(desk)
        turn = desk.current.turns[0]
        assert "second model" in turn.error


def test_models_are_listed_off_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS", "HOME", "EDGESPEC_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    found: list[tuple[Offer, ...]] = []
    desk = Desk(Toy().means())
    desk.list_models(found.append)
    settled(desk)
    assert "smollm2-135m" in {offer.model for offer in found[0]}
    cards = tmp_path / "config" / "models"
    cards.mkdir(parents=True)
    (cards / "bad.toml").write_text("id = 3", "utf-8")
    desk.list_models(found.append)
    settled(desk)
    assert len(found) == 1
    assert "bad.toml" in desk.error
    desk.dismiss_error()
    assert desk.error == ""


def test_every_window_has_a_seed_of_its_own() -> None:
    seeds = {drawn(SamplingSettings()).seed for _ in range(4)}
    assert len(seeds) == 4
    assert max(seeds) < 1 << 32
