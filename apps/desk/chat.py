"""A chat as the window keeps it: its turns, and the messages that the model is given of them. Knows no engine."""

from __future__ import annotations

from edgespec import Message

from .turn import Turn

# Of a first question, as the chat's name in a narrow list.
TITLE_LENGTH = 28


class Chat:
    def __init__(self, number: int) -> None:
        self.number = number
        self.turns: list[Turn] = []

    @property
    def title(self) -> str:
        if not self.turns:
            return f"Chat {self.number}"
        line = " ".join(self.turns[0].question.split())
        return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "…"

    @property
    def last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    @property
    def running(self) -> bool:
        return self.last is not None and self.last.running

    def messages(self) -> tuple[Message, ...]:
        """What has been said. A question whose answer failed was never asked."""
        said: list[Message] = []
        for turn in self.turns:
            if turn.completion is not None:
                said += [Message("user", turn.question), Message("assistant", turn.completion.text)]
        return tuple(said)

    def begin(self, question: str, model: str) -> Turn:
        turn = Turn(question, model)
        self.turns.append(turn)
        return turn

    def undo(self) -> str:
        """Take back the last question and its answer; returns the question, "" when nothing can be taken back."""
        if not self.turns or self.running:
            return ""
        return self.turns.pop().question
