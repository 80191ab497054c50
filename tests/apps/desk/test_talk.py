"""Answers under way, over a toy engine."""

from __future__ import annotations

import threading

from apps.desk.chat import Chat
from apps.desk.talk import labeller
from edgespec import Finish, RoundTally
from tests.apps.desk.toy_desk import LONG, VOCAB, settled, toy_desk, until
from tests.engine.toy_engine import Gate


def test_an_answer_comes_piece_by_piece_and_round_by_round() -> None:
    with toy_desk() as (desk, toy):
        desk.ask("Why?")
        settled(desk)
        turn = desk.current.turns[0]
        assert turn.completion is not None
        assert turn.text == turn.completion.text
        tally = RoundTally()
        for one in turn.rounds:
            tally.add(one.report)
            assert len(one.labels) == len(one.report.tree_tokens)
        timings = turn.completion.timings
        tallied = tally.tallied()
        assert (tallied.n_passes, tallied.n_drafted) == (timings.passes, timings.draft_n)
        assert tallied.n_accepted == timings.draft_n_accepted > 0
        assert turn.sources == ("suffix",)
        assert turn.why[-1] == "a cause"
        assert turn.why[0].startswith("Suffix drafted")
        assert threading.get_ident() not in toy.idents


def test_stop_ends_an_answer_with_the_pass_under_way() -> None:
    with toy_desk(options=LONG) as (desk, toy):
        gate = Gate(toy.target, lambda one: one.width > 0 and len(toy.target.passes) > 4)
        desk.ask("Why?")
        gate.wait_until_reached()
        desk.stop()
        n_passes = len(toy.target.passes)
        gate.open()
        settled(desk)
        assert len(toy.target.passes) <= n_passes + 1
        turn = desk.current.turns[0]
        assert turn.stopped
        assert turn.completion is not None
        assert turn.completion.text == turn.text
        assert turn.completion.finish is Finish.CANCELLED


def test_two_chats_are_answered_side_by_side() -> None:
    with toy_desk() as (desk, _toy):
        desk.ask("First?")
        first = desk.current
        desk.new_chat()
        second = desk.current
        assert first.running
        desk.ask("Second?")
        settled(desk)
        assert [chat.turns[0].question for chat in (first, second)] == ["First?", "Second?"]
        assert all(chat.turns[0].completion is not None for chat in (first, second))


def test_the_next_question_may_follow_at_once() -> None:
    with toy_desk() as (desk, _toy):
        for _ in range(3):
            assert desk.ask("Why?")
            until(desk, lambda: not desk.current.running)  # its errand may not be over yet
        settled(desk)
        desk.stop()
        assert len(desk.current.messages()) == 6


def test_a_chat_that_is_dropped_frees_its_cells() -> None:
    with toy_desk() as (desk, toy):
        desk.ask("Why?")
        settled(desk)
        assert toy.target.live()
        desk.close_chat()
        settled(desk)
        until(desk, lambda: not toy.target.live())


def test_an_answer_that_fails_is_said_in_one_sentence() -> None:
    with toy_desk() as (desk, toy):

        def fails(_pass: object) -> None:
            raise ZeroDivisionError("cells")

        toy.target.before_pass = fails
        desk.ask("Why?")
        settled(desk)
        turn = desk.current.turns[0]
        assert "the engine failed" in turn.error
        assert desk.current.messages() == ()
        toy.target.before_pass = None
        desk.regenerate()
        settled(desk)
        assert len(desk.current.messages()) == 2


def test_tokens_without_text_are_called_by_their_names() -> None:
    label = labeller(VOCAB)
    assert label(VOCAB.special_tokens["<|im_end|>"]) == "<|im_end|>"
    assert label(ord("a")) == "a"
    assert label(0xC3) == "\ufffd"


def test_forgetting_an_unknown_chat_is_nothing() -> None:
    with toy_desk() as (desk, _toy):
        desk.go_to(Chat(9))
        desk.stop()
        assert not desk.running
