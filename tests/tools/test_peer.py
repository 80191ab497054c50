"""Answers: what counts, and that they survive a pipe."""

from __future__ import annotations

import os
import tempfile

import pytest

from tools.peer import Answer, PeerFailed, cpu_seconds, last_line, without_end


def test_the_end_token_is_no_token_of_the_answer_but_counts() -> None:
    assert without_end([4, 5, 9, 6], frozenset({9, 8})) == ((4, 5), True)
    assert without_end([4, 5], frozenset({9})) == ((4, 5), False)
    ended = Answer((4, 5), True, 7, 1, 0.5, 1.0)
    assert (ended.n_generated, ended.n_decoded) == (3, 2)


def test_an_answer_of_one_pass_decoded_nothing() -> None:
    assert Answer((4, 5), False, 7, 2, 0.0, 1.0).n_decoded == 0
    assert Answer((), True, 7, 3, 0.0, 1.0).n_decoded == 0


def test_an_answer_comes_back_from_its_text() -> None:
    answer = Answer((1, 2, 3), True, 10, 2, 0.25, 1.5)
    assert Answer.from_json(answer.to_json()) == answer
    for text in ("", "{}", "[]", '{"tokens": 1}'):
        with pytest.raises((ValueError, KeyError, TypeError)):
            Answer.from_json(text)


def test_processor_time_of_a_process_that_is_gone_is_nothing() -> None:
    assert cpu_seconds(None) == 0.0
    assert cpu_seconds(os.getpid()) > 0.0
    assert cpu_seconds(2**22 + 1) == 0.0


def test_the_last_line_of_a_log() -> None:
    with tempfile.TemporaryFile() as log:
        assert last_line(log) == ""
        log.write(b"first\n\xfflast\n\n  \n")
        assert last_line(log) == "\ufffdlast"


def test_a_failure_names_the_peer() -> None:
    assert str(PeerFailed("llama", "it hung", "wait")) == "llama: it hung; wait."
