"""Answers under way: asked for in other threads, told back piece by piece and round by round. Knows no window.

Contract: `ask`, `stop` and `n_running` belong to the window's thread; no call to the engine is made there. A chat has
one answer under way at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from edgespec import CancelToken, Conversation, Engine, GenerateOptions, Piece, RoundReport, RoundTally
from edgespec.text.vocab import Vocabulary

from .chat import Chat
from .errands import Errands
from .handover import Handover
from .opening import Loaded
from .turn import Drafted, Turn
from .why import Asked


@dataclass(frozen=True, slots=True)
class _Answering:
    cancel: CancelToken
    thread: threading.Thread


class Talk:
    def __init__(self, errands: Errands, handover: Handover) -> None:
        self._errands = errands
        self._handover = handover
        self._answering: dict[Chat, _Answering] = {}
        self._conversations: dict[Chat, Conversation] = {}

    def ask(self, chat: Chat, question: str, loaded: Loaded, options: GenerateOptions) -> Turn:
        before = chat.messages()
        turn = chat.begin(question, loaded.name)
        cancel = CancelToken()

        def answer() -> None:
            try:
                conversation = self._conversation(chat, loaded.engine)
                conversation.replace_messages(before)
                self._answer(conversation, turn, loaded, options, cancel)
            finally:
                self._handover.put(lambda: self._over(chat, cancel))

        self._answering[chat] = _Answering(cancel, self._errands.run("answer", answer, turn.fail))
        return turn

    def stop(self, chat: Chat) -> None:
        """From now on its answer gets no further pass."""
        if chat in self._answering:
            self._answering[chat].cancel.cancel()

    def forget(self, chat: Chat, failed: Callable[[str], None]) -> None:
        """The chat is gone: free its cache."""
        conversation = self._conversations.pop(chat, None)
        if conversation is not None:
            self._errands.run("forget", conversation.close, failed)

    def settle(self) -> None:
        """Stop all answers and wait until they are over, because their engine is about to be closed; in an errand's
        thread, while no new ones are asked for.
        """
        answering = list(self._answering.values())
        for one in answering:
            one.cancel.cancel()
        for one in answering:
            one.thread.join()
        self._conversations.clear()  # they go with the engine that made them

    def _over(self, chat: Chat, cancel: CancelToken) -> None:
        if self._answering[chat].cancel is cancel:  # else the next question was asked already
            del self._answering[chat]

    # -- an errand's thread ---------------------------------------------------------------------------------------

    def _conversation(self, chat: Chat, engine: Engine) -> Conversation:
        if chat not in self._conversations:
            self._conversations[chat] = engine.conversation()
        return self._conversations[chat]

    def _answer(
        self, conversation: Conversation, turn: Turn, loaded: Loaded, options: GenerateOptions, cancel: CancelToken
    ) -> None:
        put, label, tally = self._handover.put, labeller(loaded.engine.vocab), RoundTally()
        asked = Asked(loaded.engine, options)

        def on_piece(piece: Piece) -> None:
            put(lambda: turn.add_piece(piece))

        def on_round(report: RoundReport) -> None:
            tally.add(report)
            labels = tuple(label(token) for token in report.tree_tokens)
            put(lambda: turn.add_round(Drafted(report, labels)))

        completion = conversation.say(turn.question, options, cancel, on_piece, on_round).completion()
        why = asked.sentences(completion, tally.tallied(), loaded.causes)
        put(lambda: turn.end(completion, why))


def labeller(vocab: Vocabulary) -> Callable[[int], str]:
    """What a token is called in a picture: its text, or the name of a special one, which has no text."""
    specials = {token: text for text, token in vocab.special_tokens.items()}
    return lambda token: specials.get(token) or vocab.piece(token).decode("utf-8", "replace")
