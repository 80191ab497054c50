"""A chat: messages, the tokens they were read as, and what to do when the context is full. One caller at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgespec.engine.answer import Answer, CancelToken, PieceCallback, RoundCallback
from edgespec.engine.checks import context_remedy
from edgespec.engine.options import GenerateOptions
from edgespec.engine.reading import Reading
from edgespec.errors import BadInput, ContextOverflow, EdgeSpecError
from edgespec.events import Completion, Notice
from edgespec.text.template import ChatTemplate, Message

if TYPE_CHECKING:
    from edgespec.engine.core import Engine

# Of a full context this part is kept free for the answer before old turns are dropped.
ANSWER_SHARE = 4


class Conversation:
    """Turns between a user and the model. The model's cache is reused from turn to turn as far as the text agrees."""

    def __init__(self, engine: Engine, template: ChatTemplate, system: str = "", stops: tuple[str, ...] = ()) -> None:
        self._engine = engine
        self._template = template
        self._stops = template.stops + stops
        self._sequence = engine.new_sequence()
        self._messages: list[Message] = [Message("system", system)] if system else []
        self._before: list[Message] = []  # the messages before the running answer's question
        self._reading = Reading(engine.encoder)
        self._running: Answer | None = None

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def messages(self) -> tuple[Message, ...]:
        """What has been said. A question whose answer failed is not among it."""
        if self._running is not None and self._running.failed:
            self._settle()
        return tuple(self._messages)

    def say(
        self,
        text: str,
        options: GenerateOptions | None = None,
        cancel: CancelToken | None = None,
        on_piece: PieceCallback | None = None,
        on_round: RoundCallback | None = None,
    ) -> Answer:
        """Ask, and get an answer to iterate over. An unfinished earlier answer is waited for. Both callbacks run in the
        engine's thread.

        Raises ContextOverflow when even the newest message alone does not fit, and what `Engine.submit` raises; the
        conversation is then unchanged, as it is when the answer fails later.
        """
        self._settle()
        options = self._with_stops(options or GenerateOptions())
        asked = [*self._messages, Message("user", text)]
        messages, prompt, prompt_text = self._fitting(asked, options)
        self._before, self._messages = self._messages, messages
        try:
            self._running = self._engine.submit(
                self._sequence,
                True,
                prompt,
                options,
                cancel,
                on_piece,
                on_done=lambda completion: self._remember(prompt_text, prompt, completion),
                on_round=on_round,
                notices=_dropped(len(asked) - len(messages)),
            )
        except EdgeSpecError:
            self._messages = self._before
            raise
        return self._running

    def undo(self) -> Message:
        """Take back the last question and its answer; returns the question. Raises BadInput when there is none."""
        self._settle()
        for i in range(len(self._messages) - 1, -1, -1):
            if self._messages[i].role == "user":
                question = self._messages[i]
                del self._messages[i:]
                return question
        raise BadInput("cannot undo", "nothing has been said yet", "say something first")

    def replace_messages(self, messages: Sequence[Message]) -> None:
        """Go on from another transcript."""
        self._settle()
        self._messages = list(messages)

    def close(self) -> None:
        """Stop a running answer and free the conversation's cache."""
        if self._running is not None:
            self._running.cancel()
        self._engine.release(self._sequence)

    # -- inside -------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Wait for the running answer. Whoever reads it is told when it fails; here its question is taken back."""
        running, self._running = self._running, None
        if running is not None:
            running.wait()
            if running.failed:
                self._messages = self._before

    def _with_stops(self, options: GenerateOptions) -> GenerateOptions:
        missing = tuple(stop for stop in self._stops if stop not in options.stop)
        return replace(options, stop=options.stop + missing)

    def _fitting(self, messages: list[Message], options: GenerateOptions) -> tuple[list[Message], list[int], str]:
        """The messages that fit with room for an answer, their prompt's tokens and text: the oldest turns go first."""
        n_ctx = self._engine.settings.n_ctx
        room = n_ctx - min(options.max_tokens, n_ctx // ANSWER_SHARE)
        while True:
            segments = self._template.render_segments(messages, True, self._engine.encoder.specials)
            tokens = self._reading.tokens_of(segments)
            if len(tokens) <= room:
                return messages, tokens, "".join(segment.text for segment in segments)
            shorter = without_oldest_turn(messages)
            if shorter is None:
                raise ContextOverflow(
                    f"a message of {len(tokens)} tokens with its system prompt",
                    f"the context holds {n_ctx} and an answer needs {n_ctx - room} of them",
                    context_remedy(len(tokens) + n_ctx - room, self._engine.header.context_length),
                )
            messages = shorter

    def _remember(self, prompt_text: str, prompt: list[int], completion: Completion) -> None:
        """Runs in the engine's thread, before the caller gets the completion."""
        self._messages.append(Message("assistant", completion.text))
        self._reading.add(prompt_text, prompt, completion.text, completion.token_ids)


def without_oldest_turn(messages: list[Message]) -> list[Message] | None:
    """Drop the oldest question and its answer, never the system prompt; None when only the newest question is left."""
    first = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    following = next((i for i in range(first + 1, len(messages)) if messages[i].role == "user"), None)
    if following is None:
        return None
    return messages[:first] + messages[following:]


def _dropped(n_messages: int) -> tuple[Notice, ...]:
    if not n_messages:
        return ()
    return (Notice("context-full", f"the context is full: the oldest {n_messages} messages were dropped"),)
