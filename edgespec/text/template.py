"""Chat templates: messages in, prompt text out, with what people typed kept apart from what the template wrote.

Contract: rendering never runs code outside jinja2's sandbox, and every fault of a template is a BadInput that names the
line. Knows no token ids and no model; a conversation is given whole each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from jinja2 import TemplateError

from edgespec.errors import BadInput
from edgespec.text.folding import fold_system, fold_tools
from edgespec.text.hugging import StandIns, TextGuard, characters_of, hugging_messages, hugging_tools
from edgespec.text.messages import Message as Message
from edgespec.text.messages import Tool, ToolCall
from edgespec.text.sandbox import compile_template, line_of
from edgespec.text.toolcalls import CallForm, form_of
from edgespec.text.vocab import Segment, SpecialTexts

# A template with nested loops could fill the memory; no prompt that a context holds comes near this.
MAX_CHARACTERS = 1 << 24
# A function, its description and what it returned, when a template is tried.
_PROBE, _DESCRIPTION, _RESULT = "edgespec_probe", "edgespec-description-probe", "edgespec-result-probe"


class ChatTemplate:
    """A compiled template. `stops` are the stop strings an answer needs where the model has no end token for it."""

    def __init__(
        self,
        source: str,
        bos_text: str,
        eos_text: str,
        *,
        origin: str = "of the model",
        stops: tuple[str, ...] = (),
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """`origin` names the template in messages, `now` is the clock of `strftime_now`. Raises BadInput."""
        self.source = source
        self.origin = origin
        self.stops = stops
        self._bos_text = bos_text
        self._eos_text = eos_text
        try:
            self._compiled = compile_template(source, now)
        except (TemplateError, RecursionError) as error:
            raise self._fault(error) from error

    def render(self, messages: Sequence[Message], add_generation_prompt: bool, tools: Sequence[Tool] = ()) -> str:
        """The prompt text. `add_generation_prompt` opens the assistant's turn. Raises BadInput, also for the result of
        a call that nobody made.

        A template that has no place for a system message gets its text at the head of the next user message. One that
        shows no tools, or writes calls in a form that `call_form` does not know, gets tools, calls and results as text.
        """
        return self._run(self._seated(messages, tools), add_generation_prompt, self._shown(tools))

    def render_segments(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        specials: SpecialTexts,
        tools: Sequence[Tool] = (),
    ) -> list[Segment]:
        """The text of `render`, in which contents, calls and tools that spell a special token are not trusted.

        Each risky stretch of a text passes through the template as one private-use character. So trimming, splitting
        and joining leave it whole; a template that looks at the special text itself sees the stand-in, which is safe.
        """
        seated, shown = self._seated(messages, tools), self._shown(tools)
        guard = StandIns(specials, characters_of(seated, shown).union(self.source))
        text = self._run(seated, add_generation_prompt, shown, guard)
        originals = guard.originals
        parts = re.split(f"([{''.join(originals)}])", text) if originals else [text]
        return [Segment(originals.get(part, part), part not in originals) for part in parts if part]

    @cached_property
    def takes_system(self) -> bool:
        """Does a system message reach the prompt? Tried once, since templates refuse it, or drop it without a word."""
        word = "edgespec-system-probe"
        try:
            return word in self._run([Message("system", word), Message("user", "Hi")], True)
        except BadInput:
            return False

    @cached_property
    def call_form(self) -> CallForm:
        """How an assistant of this template calls functions. Tried once: a tool, a call and its result must all reach
        the prompt, else the template is one that knows no tools.
        """
        call = ToolCall("1", _PROBE, f'{{"{_PROBE}": 1}}')
        messages = [Message("user", "Hi"), Message("assistant", "", (call,)), Message("tool", _RESULT, call_id="1")]
        try:
            text = self._run(messages, True, [Tool(_PROBE, _DESCRIPTION)])
        except BadInput:
            return CallForm.TOLD
        return form_of(text, _PROBE) if _DESCRIPTION in text and _RESULT in text else CallForm.TOLD

    def _shown(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Those that the template itself writes."""
        return tools if tools and self.call_form is not CallForm.TOLD else ()

    def _seated(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
        seated = list(messages)
        with_calls = any(message.calls or message.call_id for message in messages)
        if (tools or with_calls) and self.call_form is CallForm.TOLD:
            seated = fold_tools(seated, tools)
        if any(message.role == "system" for message in seated) and not self.takes_system:
            return fold_system(seated)
        return seated

    def _run(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        tools: Sequence[Tool] = (),
        guard: TextGuard = str,
    ) -> str:
        parts: list[str] = []
        n_characters = 0
        shown_messages, shown_tools = hugging_messages(messages, guard), hugging_tools(tools, guard)
        try:
            for part in self._compiled.generate(
                messages=shown_messages,
                add_generation_prompt=add_generation_prompt,
                bos_token=self._bos_text,
                eos_token=self._eos_text,
                tools=shown_tools or None,
                documents=None,
            ):
                parts.append(part)
                n_characters += len(part)
                if n_characters > MAX_CHARACTERS:
                    raise TemplateError(f"it wrote more than {MAX_CHARACTERS} characters")
        # Any Exception: a template is a foreign program, and whatever it raises is its fault, not a crash of ours.
        except Exception as error:
            raise self._fault(error) from error
        return "".join(parts)

    def _fault(self, error: Exception) -> BadInput:
        line = line_of(error)
        said = error.message if isinstance(error, TemplateError) else None
        why = said or f"{type(error).__name__}: {error}"
        names = ", ".join(BUILTIN)
        return BadInput(
            f"the chat template {self.origin}",
            f"line {line}: {why}" if line else why,
            f"correct it, or choose another with --template ({names}, or a file)",
        )


@dataclass(frozen=True, slots=True)
class BuiltinTemplate:
    source: str
    stops: tuple[str, ...]


# Selected by name. `plain` is for models that were never trained on a chat: lines that a dialogue in print would have.
BUILTIN = {
    "chatml": BuiltinTemplate(
        "{% for message in messages %}"
        "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        ("<|im_end|>",),
    ),
    "gemma": BuiltinTemplate(
        "{{ bos_token }}{% for message in messages %}"
        "{% if message.role == 'system' %}{{ raise_exception('it has no system role') }}{% endif %}"
        "<start_of_turn>{{ 'model' if message.role == 'assistant' else 'user' }}\n{{ message.content }}<end_of_turn>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
        ("<end_of_turn>",),
    ),
    "llama3": BuiltinTemplate(
        "{{ bos_token }}{% for message in messages %}"
        "<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n{{ message.content }}<|eot_id|>"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
        ("<|eot_id|>",),
    ),
    # No space after the last colon: word pieces carry their own, so an answer that is put back reads the same.
    "plain": BuiltinTemplate(
        "{% for message in messages %}"
        "{% if message.role == 'system' %}{{ message.content }}\n\n"
        "{% elif message.role == 'user' %}User: {{ message.content }}\n"
        "{% else %}Assistant:{{ '' if message.content.startswith((' ', '\\n')) else ' ' }}{{ message.content }}\n"
        "{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}Assistant:{% endif %}",
        ("\nUser:",),
    ),
}


def load_template(choice: str | None, model_source: str | None, bos_text: str, eos_text: str) -> ChatTemplate:
    """`choice` is a name in BUILTIN or a file; without one the model's own template, and without that `plain`.

    Raises BadInput for a file that cannot be read and for a template that is wrong.
    """
    if choice is None and model_source is not None:
        return ChatTemplate(model_source, bos_text, eos_text)
    name = choice or "plain"
    if name in BUILTIN:
        builtin = BUILTIN[name]
        return ChatTemplate(builtin.source, bos_text, eos_text, origin=repr(name), stops=builtin.stops)
    return ChatTemplate(_read(name), bos_text, eos_text, origin=repr(name))


def _read(path: str) -> str:
    remedy = f"give one of {', '.join(BUILTIN)}, or a jinja2 file in UTF-8"
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise BadInput(f"template {path!r}", error.strerror or str(error), remedy) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"template {path!r}", f"byte {error.start} is not UTF-8", remedy) from error
    except ValueError as error:  # a zero byte, or half a character
        raise BadInput(f"template {path!r}", f"it cannot be a file's name: {error}", remedy) from error
