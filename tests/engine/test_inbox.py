from __future__ import annotations

import threading

import pytest

from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.inbox import Inbox
from edgespec.engine.job import Request
from edgespec.engine.options import GenerateOptions
from edgespec.errors import EngineFailure
from tests.engine.toy_engine import DEADLINE_SECONDS


def request() -> Request:
    return Request(0, False, [1], GenerateOptions(), Answer(CancelToken()))


def test_messages_come_in_order() -> None:
    inbox, asked = Inbox(), request()
    inbox.put(7)
    inbox.submit(asked)
    assert [inbox.take(), inbox.take()] == [7, asked]
    assert inbox.empty()


def test_it_is_quiet_only_while_its_reader_waits() -> None:
    inbox, taken = Inbox(), threading.Event()

    def read() -> None:
        inbox.take()
        taken.set()

    assert not inbox.quiet.is_set()
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert inbox.quiet.wait(DEADLINE_SECONDS)
    inbox.submit(request())
    assert not inbox.quiet.is_set()
    assert taken.wait(DEADLINE_SECONDS)
    reader.join()
    assert not inbox.quiet.is_set()


def test_a_message_that_is_already_there_is_no_quiet_moment() -> None:
    inbox = Inbox()
    inbox.put(7)
    assert inbox.take() == 7
    assert not inbox.quiet.is_set()


def test_a_closed_inbox_wakes_its_reader_and_takes_no_requests() -> None:
    inbox = Inbox()
    inbox.close()
    inbox.close()
    assert inbox.closed
    assert inbox.take() is None
    with pytest.raises(EngineFailure):
        inbox.submit(request())
