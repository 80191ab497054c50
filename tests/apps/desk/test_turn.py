from __future__ import annotations

from dataclasses import replace

from apps.desk.turn import Span, Turn
from edgespec import Finish, Piece, RoundTally
from tests.apps.desk.made import answered, drafted
from tests.server.toy_completion import completion_of


def test_spans_know_their_tokens_and_sources() -> None:
    turn = answered()
    assert turn.text == "a bc d ef"
    assert turn.spans[1:3] == [Span(" b", "lookup", 1), Span("c", "lookup", 2)]
    assert turn.sources == ("lookup", "suffix")
    assert turn.n_tokens == 6


def test_a_piece_may_have_no_text_or_no_tokens() -> None:
    turn = Turn("?")
    turn.add_piece(Piece("", (1, 2), "lookup"))  # two halves of a letter
    turn.add_piece(Piece("é", (3,), "lookup"))
    turn.add_piece(Piece(".", (), ""))  # held back until the end
    assert turn.spans == [Span("é", "lookup", 2), Span(".", "", 3)]


def test_each_token_finds_the_round_that_decided_it() -> None:
    turn = answered()
    first, second, third = turn.rounds
    assert [turn.round_at(token) for token in range(7)] == [first, second, second, second, third, third, None]


def test_the_tally_is_that_of_its_rounds() -> None:
    turn, tally = answered(), RoundTally()
    for one in turn.rounds:
        tally.add(one.report)
    assert turn.tallied() == tally.tallied()
    assert turn.decode_seconds == 0.06


def test_the_last_draft_is_the_last_round_that_had_one() -> None:
    turn = answered()
    turn.add_round(drafted())
    assert turn.last_draft() is turn.rounds[2]
    assert Turn("?").last_draft() is None
    assert turn.rounds[1].source == "lookup"


def test_a_turn_ends_once_in_one_of_three_ways() -> None:
    running, failed, stopped = Turn("?"), Turn("?"), Turn("?")
    assert running.running
    failed.fail("it broke.")
    assert not failed.running
    stopped.end(replace(completion_of("a"), finish=Finish.CANCELLED), ())
    assert stopped.stopped
    assert not answered().stopped
