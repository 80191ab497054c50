from __future__ import annotations

import threading

from apps.desk.handover import Handover


def test_acts_are_performed_in_their_order_by_who_drains() -> None:
    handover, done = Handover(), list[tuple[str, int]]()

    def act(name: str) -> None:
        done.append((name, threading.get_ident()))

    threads = [threading.Thread(target=lambda n=n: handover.put(lambda: act(n))) for n in ("a", "b")]
    for thread in threads:
        thread.start()
        thread.join()
    assert not done
    assert handover.drain() == 2
    assert done == [("a", threading.get_ident()), ("b", threading.get_ident())]
    assert handover.drain() == 0


def test_what_comes_meanwhile_waits_for_the_next_time() -> None:
    handover, n_done = Handover(), [0]

    def again() -> None:
        n_done[0] += 1
        handover.put(again)

    handover.put(again)
    for n in range(1, 4):
        assert handover.drain() == 1
        assert n_done == [n]
