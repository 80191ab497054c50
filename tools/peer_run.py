"""Asks every peer every prompt: interleaved, in rotating order, each answer kept as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tools.peer import Answer, Peer, PeerFailed
from tools.peer_rows import Key, Prompt, Row, RowFile

WARM_UP_TOKENS = 8
# Threads of the peer that answered last spin for some 20 ms before they sleep; the next one shall not pay for that.
SETTLE_SECONDS = 0.05
# A peer that failed so often in a row is not asked again in this repeat.
MAX_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer to be had."""

    repeat: int
    prompt: Prompt
    peer: str

    @property
    def key(self) -> Key:
        return Key(self.prompt.digest, self.peer, self.repeat)


def turns(prompts: Sequence[Prompt], peers: Sequence[str], n_repeats: int) -> list[Turn]:
    """All peers answer a prompt before the next one; each prompt and repeat begins with another peer."""
    found: list[Turn] = []
    for repeat in range(n_repeats):
        for number, prompt in enumerate(prompts):
            first = (number + repeat) % len(peers)
            found += [Turn(repeat, prompt, peer) for peer in (*peers[first:], *peers[:first])]
    return found


class Pool:
    """The peers of one repeat, each started when it is first asked and kept until `close`."""

    def __init__(
        self, peers: Sequence[Peer], warm_up: Sequence[int], pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._pause = pause
        self._peers = {peer.name: peer for peer in peers}
        self._warm_up = list(warm_up)
        self._ready: set[str] = set()
        self._failures: dict[str, int] = {}

    def given_up(self, name: str) -> bool:
        return self._failures.get(name, 0) >= MAX_FAILURES

    def answer(self, turn: Turn, max_tokens: int) -> Row:
        """A failure ends the peer's processes; it is started again for its next turn."""
        peer, prompt = self._peers[turn.peer], turn.prompt
        answer: Answer | None = None
        failure, others_seconds = "", 0.0
        try:
            self._make_ready(peer)
            self._pause(SETTLE_SECONDS)
            before = self._others_seconds(peer)
            answer = peer.ask(list(prompt.tokens), max_tokens)
            others_seconds = self._others_seconds(peer) - before
            if answer.n_prompt != len(prompt.tokens):
                why = f"it read {answer.n_prompt} tokens of a prompt of {len(prompt.tokens)}"
                raise PeerFailed(peer.name, why, "see what it keeps from one prompt to the next")
            self._failures[peer.name] = 0
        except PeerFailed as error:
            answer, failure = None, str(error)
            self._failures[peer.name] = self._failures.get(peer.name, 0) + 1
            self._ready.discard(peer.name)
            peer.close()
        return Row(turn.key, prompt.id, prompt.category, len(prompt.tokens), answer, failure, others_seconds)

    def close(self) -> None:
        """All of them, also when one cannot be."""
        self._ready.clear()
        with ExitStack() as closings:
            for peer in self._peers.values():
                closings.callback(peer.close)

    def _make_ready(self, peer: Peer) -> None:
        if peer.name not in self._ready:
            peer.start()
            peer.ask(self._warm_up, WARM_UP_TOKENS)
            self._ready.add(peer.name)

    def _others_seconds(self, peer: Peer) -> float:
        return sum(other.cpu_seconds() for other in self._peers.values() if other is not peer)


def measure(
    wanted: Sequence[Turn],
    peers: Sequence[Peer],
    warm_up: Sequence[int],
    max_tokens: int,
    rows: RowFile,
    pause: Callable[[float], None] = time.sleep,
) -> Generator[Row | None, None, None]:
    """Fill `rows`; what is there is skipped. Gives for every turn its row, or None for one that was skipped.

    All peers start anew with every repeat: some remember what they answered before, and would copy their own answer to
    a prompt that comes again.
    """
    for repeat in sorted({turn.repeat for turn in wanted}):
        pool = Pool(peers, warm_up, pause)
        try:
            for turn in (turn for turn in wanted if turn.repeat == repeat):
                row = None
                if not rows.done(turn.key) and not pool.given_up(turn.peer):
                    row = pool.answer(turn, max_tokens)
                    rows.append(row)
                yield row
        finally:
            pool.close()
