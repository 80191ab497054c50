"""All that the window shows and all that its user can do, without a window.

Contract: one thread calls it, that of the window. No call waits, and none reaches the engine in that thread, a token's
`cancel` excepted; what other threads have to say is taken in by `drain`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from edgespec import GenerateOptions, Notice, SamplingSettings

from .chat import Chat
from .errands import Errands
from .handover import Handover
from .keeper import Keeper, Phase
from .listing import Offer, offers
from .opening import Means, Wanted
from .talk import Talk

# A small model that is greedy in a chat repeats itself.
SAMPLING = SamplingSettings(temperature=0.7, top_p=0.95)
N_SEEDS = 1 << 64
# Drawn seeds stay short enough to be typed again.
DRAWN_SEED_BITS = 32
SAME_AGAIN = Notice("same-again", "at temperature 0 the answer will be the same; a higher one makes it vary")


class Desk:
    def __init__(self, means: Means, options: GenerateOptions | None = None) -> None:
        self._handover = Handover()
        self._errands = Errands(self._handover)
        self._talk = Talk(self._errands, self._handover)
        self.keeper = Keeper(means, self._errands, self._handover, self._talk.settle, self.fail, self._notify)
        self.options = options or GenerateOptions(drawn(SAMPLING))
        self._n_chats = 1
        self.chats = [Chat(1)]
        self.current = self.chats[0]
        self.error = ""
        self.notices: list[Notice] = []

    # -- what can be done now -------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether other threads have, or will have, something to tell."""
        return self._errands.n_running > 0

    @property
    def closed(self) -> bool:
        return self.keeper.phase is Phase.CLOSED and not self.running

    @property
    def can_ask(self) -> bool:
        return self.keeper.ready and not self.current.running

    @property
    def can_undo(self) -> bool:
        return bool(self.current.turns) and not self.current.running

    @property
    def can_regenerate(self) -> bool:
        return self.can_undo and self.keeper.ready

    @property
    def can_stop(self) -> bool:
        return self.current.running

    # -- what the user does -----------------------------------------------------------------------------------------

    def open(self, model: str | None, licence_accepted: bool = False) -> None:
        self.error = ""
        self.notices.clear()
        self.keeper.open(Wanted(model, licence_accepted))

    def tune(self) -> None:
        self.error = ""
        self.keeper.tune()

    def ask(self, question: str) -> bool:
        """False when nothing can be asked now, and for an empty question."""
        loaded = self.keeper.loaded
        if not question.strip() or not self.can_ask or loaded is None:
            return False
        self.error = ""
        self.notices = [notice for notice in self.notices if notice is not SAME_AGAIN]
        self._talk.ask(self.current, question, loaded, self.options)
        return True

    def stop(self) -> None:
        self._talk.stop(self.current)

    def undo(self) -> str:
        """Take back the last question and its answer; returns the question."""
        return self.current.undo()

    def regenerate(self) -> None:
        """Answer the last question again, with the next seed."""
        if self.can_regenerate:
            sampling = self.options.sampling
            self.options = replace(self.options, sampling=replace(sampling, seed=(sampling.seed + 1) % N_SEEDS))
            self.ask(self.undo())
            if not sampling.temperature:
                self._notify(SAME_AGAIN)

    def new_chat(self) -> None:
        """Go to an empty chat: another one, or the current one if nothing was said in it."""
        if self.current.turns:
            self._n_chats += 1
            self.current = Chat(self._n_chats)
            self.chats.append(self.current)

    def close_chat(self) -> None:
        """Drop the current chat and go to the one before it; one chat always stays."""
        if self.current.running:
            return
        gone, at = self.current, self.chats.index(self.current)
        self._talk.forget(gone, self.fail)
        self.chats.remove(gone)
        if not self.chats:
            self._n_chats += 1
            self.chats.append(Chat(self._n_chats))
        self.current = self.chats[max(0, at - 1)]

    def go_to(self, chat: Chat) -> None:
        self.current = chat

    def list_models(self, got: Callable[[tuple[Offer, ...]], None]) -> None:
        """`got` is told in the window's thread; an error is shown instead."""

        def look() -> None:
            found = offers()
            self._handover.put(lambda: got(found))

        self._errands.run("list", look, self.fail)

    def dismiss_error(self) -> None:
        self.error = ""

    def close(self) -> None:
        """End everything; `closed` says when that is done."""
        for chat in self.chats:
            self._talk.stop(chat)
        self.keeper.close()

    def drain(self) -> bool:
        """Take in what other threads have told; True if anything was."""
        return self._handover.drain() > 0

    def fail(self, sentence: str) -> None:
        self.error = sentence

    def _notify(self, notice: Notice) -> None:
        if notice not in self.notices:
            self.notices.append(notice)


def drawn(sampling: SamplingSettings) -> SamplingSettings:
    """The same with a seed of its own."""
    return replace(sampling, seed=secrets.randbits(DRAWN_SEED_BITS))
