"""A chat in progress: the model, the conversation, the options in force, and what has been counted.

Knows nothing of how messages are typed or commands are spelt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edgespec.cli.follow import show
from edgespec.cli.inputs import checked_argument
from edgespec.cli.opening import OpenedModel
from edgespec.cli.screen import Screen
from edgespec.cli.stats import Totals, stats_line
from edgespec.cli.transcript import Transcript, load, save
from edgespec.engine import Conversation, GenerateOptions
from edgespec.errors import BadInput, EdgeSpecError
from edgespec.events import Completion, Notice
from edgespec.text.template import Message

OpenModel = Callable[[str], OpenedModel]

N_SEEDS = 1 << 64
PLAIN_CHAT = Notice("no-chat-template", "this model was not trained to chat; it goes on with a written dialogue")


class Session:
    """Owns the opened model until `close`. An error of edgespec leaves the session as it was before the call."""

    def __init__(
        self,
        model: OpenedModel,
        conversation: Conversation,
        options: GenerateOptions,
        screen: Screen,
        open_model: OpenModel,
    ) -> None:
        self.model = model
        self.conversation = conversation
        self.options = options
        self.screen = screen
        self.totals = Totals()
        self._open_model = open_model
        self._own_files: set[Path] = set()  # /save may replace what it wrote itself

    def close(self) -> None:
        self.conversation.close()
        self.model.engine.close()

    # -- answers ------------------------------------------------------------------------------------------------

    def ask(self, text: str) -> Completion:
        """Say something and show the answer as it comes. When the engine fails, the question is taken back."""
        before = self.conversation.messages
        try:
            answer = self.conversation.say(checked_argument(text, "the message"), self.options)
            completion = show(answer, self.screen)
        except EdgeSpecError:
            self.conversation.replace_messages(before)
            raise
        self.totals.add(completion)
        self.screen.dim(stats_line(completion, self.options.max_tokens))
        return completion

    def ask_again(self) -> Completion:
        """Answer the last question anew, with the next seed. The old answer comes back when this fails."""
        before, options = self.conversation.messages, self.options
        question = self.conversation.undo()
        self.options = replace(options, sampling=replace(options.sampling, seed=(options.sampling.seed + 1) % N_SEEDS))
        try:
            return self.ask(question.content)
        except EdgeSpecError:
            self.options = options
            self.conversation.replace_messages(before)
            raise

    # -- the conversation ---------------------------------------------------------------------------------------

    @property
    def system(self) -> str:
        """The system prompt, "" when there is none."""
        return next((message.content for message in self.conversation.messages if message.role == "system"), "")

    def set_system(self, text: str) -> None:
        """Replace the system prompt, "" removes it; what has been said stays."""
        head = [Message("system", checked_argument(text, "the system prompt"))] if text else []
        self.conversation.replace_messages(head + self._turns())

    def clear(self) -> None:
        """Forget what was said; the system prompt stays."""
        self.conversation.replace_messages([m for m in self.conversation.messages if m.role == "system"])

    def _turns(self) -> list[Message]:
        return [message for message in self.conversation.messages if message.role != "system"]

    def save(self, path: Path, replacing: bool) -> int:
        """Write the transcript; returns how many messages. A file that this session did not write is replaced only when
        `replacing`. Raises BadInput and DiskFull.
        """
        absolute = path.absolute()
        if path.exists() and not replacing and absolute not in self._own_files:
            raise BadInput(f"cannot save to {path}", "the file exists", f"write '/save! {path}' to replace it")
        messages = self.conversation.messages
        save(path, Transcript(self.model.name, messages))
        self._own_files.add(absolute)
        return len(messages)

    def load(self, path: Path) -> Transcript:
        """Go on from a saved transcript. Raises BadInput; the conversation is then unchanged."""
        transcript = load(path)
        self.conversation.replace_messages(transcript.messages)
        return transcript

    def switch_model(self, name: str) -> None:
        """Go on with another model, which is open before the old one is closed; raises what opening it raises."""
        model = self._open_model(name)
        try:
            conversation = model.engine.conversation()
            conversation.replace_messages(self.conversation.messages)
        except EdgeSpecError:
            model.engine.close()
            raise
        self.close()
        self.model, self.conversation = model, conversation
        self.explain_template(None)

    def explain_template(self, template: str | None) -> None:
        if template is None and not self.model.engine.header.has_chat_template:
            self.screen.notice(PLAIN_CHAT)
