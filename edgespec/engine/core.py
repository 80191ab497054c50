"""The engine: one model in memory, answers on request. Safe to use from several threads."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from edgespec.engine.answer import Answer, CancelToken, PieceCallback
from edgespec.engine.conversation import Conversation
from edgespec.engine.drafting import Drafters
from edgespec.engine.job import Request
from edgespec.engine.opening import Opened, Progress, open_model
from edgespec.engine.options import EngineOptions, GenerateOptions
from edgespec.engine.worker import Worker, check_fits
from edgespec.events import Completion, Notice
from edgespec.library.resolve import resolve
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import SequenceId
from edgespec.text.template import load_template
from edgespec.text.vocab import PromptEncoder, Segment


class Engine:
    """Open one with `Engine.open`, close it with `close` or a `with` block.

        with Engine.open() as engine:
            print(engine.conversation().say("Hello").text)
    """

    def __init__(self, opened: Opened, name: str, notices: list[Notice]) -> None:
        self.name = name
        self.header = opened.header
        self.vocab = opened.vocab
        self.notices = notices
        self.settings = opened.target.settings
        self.encoder = PromptEncoder(opened.vocab)
        self._ids = itertools.count()
        drafters = Drafters(opened.vocab, time.perf_counter)
        self._worker = Worker(opened.target, opened.vocab, FixedPolicy(), drafters.for_request, opened.width_class)

    @classmethod
    def open(
        cls,
        model: str | Path | None = None,
        options: EngineOptions | None = None,
        on_notice: Callable[[Notice], None] | None = None,
        progress: Progress | None = None,
    ) -> Engine:
        """Load a model: a GGUF file, a card's name, `hf:user/repo[:quant]`, or None for the starter model.

        `progress` gets the loaded part, 0 to 1, and may return False to give up. Raises EdgeSpecError.
        """
        notices: list[Notice] = []

        def notify(notice: Notice) -> None:
            notices.append(notice)
            if on_notice is not None:
                on_notice(notice)

        found = resolve(str(model) if model is not None else None)
        return cls(open_model(found.path, options or EngineOptions(), notify, progress), found.name, notices)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what runs and free the model. Closing twice is harmless."""
        self._worker.close()

    def complete(
        self,
        prompt: str,
        options: GenerateOptions | None = None,
        cancel: CancelToken | None = None,
        on_piece: PieceCallback | None = None,
    ) -> Answer:
        """Go on with a text as it stands: no chat template."""
        tokens = self.encoder.encode([Segment(prompt, trusted=False)])
        return self.submit(self.new_sequence(), False, tokens, options, cancel, on_piece)

    def conversation(self, system: str = "", template: str | None = None) -> Conversation:
        """A chat. `template` is a built-in name or a jinja2 file; None takes the model's own."""
        loaded = load_template(template, self.header.chat_template, self.vocab.bos_text, self.vocab.eos_text)
        return Conversation(self, loaded, system)

    # -- for conversations and for the server -------------------------------------------------------------------

    def new_sequence(self) -> SequenceId:
        return next(self._ids)

    def release(self, sequence: SequenceId) -> None:
        self._worker.release(sequence)

    def submit(
        self,
        sequence: SequenceId,
        keep: bool,
        prompt: list[int],
        options: GenerateOptions | None = None,
        cancel: CancelToken | None = None,
        on_piece: PieceCallback | None = None,
        on_done: Callable[[Completion], None] | None = None,
    ) -> Answer:
        """Queue a request made of tokens. Raises ContextOverflow at once for a prompt that cannot fit."""
        check_fits(len(prompt), self.settings.n_ctx)
        answer = Answer(cancel or CancelToken(), on_piece)
        self._worker.submit(Request(sequence, keep, prompt, options or GenerateOptions(), answer, on_done))
        return answer
