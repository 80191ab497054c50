"""Clients of the server that ask at once, read as real ones do, and now and then hang up. Knows no engine.

Contract: `work` returns one outcome for every request, whatever became of it.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count

import httpx

from tools.fuzz_requests import Case

CONNECT_SECONDS = 30.0
# Longest time that a client which never reads waits before it hangs up.
MOST_PATIENCE_SECONDS = 0.3
# Most events that one which hangs up in mid-stream reads.
MOST_EVENTS = 12


class Leaves(str, Enum):
    """When a client hangs up."""

    NEVER = "never"
    UNREAD = "unread"
    MID_STREAM = "mid-stream"


@dataclass(frozen=True, slots=True)
class Outcome:
    """first_text_seconds: from sending to the first text of a stream; None without one. error: "" for none."""

    number: int
    leaves: Leaves
    first_text_seconds: float | None
    error: str


@dataclass(frozen=True, slots=True)
class Call:
    """A request and what its client does."""

    case: Case
    leaves: Leaves
    patience: float

    @classmethod
    def drawn(cls, case: Case, seed: int, n_leave_of_100: int) -> Call:
        rng = random.Random(f"leaving/{seed}/{case.number}")
        leaves = Leaves.NEVER
        if rng.randrange(100) < n_leave_of_100:
            leaves = rng.choice((Leaves.UNREAD, Leaves.MID_STREAM)) if case.stream else Leaves.UNREAD
        return cls(case, leaves, rng.random())


class Client:
    """One connection after another to one server."""

    def __init__(self, http: httpx.Client, port: int) -> None:
        self._http = http
        self._port = port

    def outcome(self, call: Call) -> Outcome:
        body = call.case.asked(call.case.draft, exact=call.case.number % 8 == 0)
        try:
            if call.leaves is Leaves.UNREAD:
                return self._unread(call, body)
            return self._streamed(call, body) if call.case.stream else self._whole(call, body)
        except (httpx.HTTPError, OSError, ValueError) as error:
            return Outcome(call.case.number, call.leaves, None, repr(error))

    def _unread(self, call: Call, body: dict[str, object]) -> Outcome:
        """Sends, waits a moment, and is gone."""
        content = json.dumps(body).encode()
        head = f"POST {call.case.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", self._port), CONNECT_SECONDS) as sent:
            sent.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            time.sleep(call.patience * MOST_PATIENCE_SECONDS)
        return Outcome(call.case.number, call.leaves, None, "")

    def _whole(self, call: Call, body: dict[str, object]) -> Outcome:
        response = self._http.post(call.case.path, json=body)
        fine = response.status_code == 200 and response.json()["choices"][0]["finish_reason"] in ("stop", "length")
        return Outcome(call.case.number, call.leaves, None, "" if fine else response.text[:200])

    def _streamed(self, call: Call, body: dict[str, object]) -> Outcome:
        started, first, n_events, ended = time.perf_counter(), None, 0, False
        n_wanted = 1 + int(call.patience * MOST_EVENTS)
        with self._http.stream("POST", call.case.path, json=body) as response:
            if response.status_code != 200:
                return Outcome(call.case.number, call.leaves, None, response.read().decode()[:200])
            for line in response.iter_lines():
                if line.startswith('data: {"error"'):
                    return Outcome(call.case.number, call.leaves, first, line[:200])
                if first is None and '"source":' in line:
                    first = time.perf_counter() - started
                ended = ended or line == "data: [DONE]"
                n_events += line.startswith("data: ")
                if call.leaves is Leaves.MID_STREAM and n_events >= n_wanted:
                    return Outcome(call.case.number, call.leaves, first, "")
        return Outcome(call.case.number, call.leaves, first, "" if ended else "the stream broke off")


def work(
    clients: Sequence[Client], calls: Sequence[Call], on_outcome: Callable[[Outcome], None] = lambda _outcome: None
) -> list[Outcome]:
    """Every client takes the next call when it is done with one. Outcomes in the order of the calls. `on_outcome` is
    called in the clients' threads, one at a time.
    """
    outcomes: list[Outcome] = []
    numbers, lock = count(), threading.Lock()

    def run(client: Client) -> None:
        while (number := next(numbers)) < len(calls):
            outcome = client.outcome(calls[number])
            with lock:
                outcomes.append(outcome)
                on_outcome(outcome)

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(outcomes, key=lambda one: one.number)
