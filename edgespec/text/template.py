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
from edgespec.text.sandbox import compile_template, line_of
from edgespec.text.vocab import Segment, SpecialTexts

ROLES = ("system", "user", "assistant")
# A template with nested loops could fill the memory; no prompt that a context holds comes near this.
MAX_CHARACTERS = 1 << 24
# Stand-ins for risky text come from here (private use); characters that occur in the conversation are passed over.
STAND_INS = range(0xF0000, 0x10FFFE)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. Raises BadInput for a role that is not in ROLES: a role is template text, so it is not free."""

    role: str
    content: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise BadInput(f"role {self.role!r}", "a message is said by system, user or assistant", "use one of these")


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

    def render(self, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        """The prompt text. `add_generation_prompt` opens the assistant's turn. Raises BadInput.

        A template that has no place for a system message gets its text at the head of the next user message.
        """
        return self._run(self._seated(messages), add_generation_prompt)

    def render_segments(
        self, messages: Sequence[Message], add_generation_prompt: bool, specials: SpecialTexts
    ) -> list[Segment]:
        """The text of `render`, in which contents that spell a special token are marked as not trusted.

        Each risky stretch of a content passes through the template as one private-use character. So trimming, splitting
        and joining leave it whole; a template that looks at the special text itself sees the stand-in, which is safe.
        """
        seated = self._seated(messages)
        guarded, originals = _guarded(seated, specials, self.source)
        text = self._run(guarded, add_generation_prompt)
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

    def _seated(self, messages: Sequence[Message]) -> list[Message]:
        if any(message.role == "system" for message in messages) and not self.takes_system:
            return _fold_system(messages)
        return list(messages)

    def _run(self, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        parts: list[str] = []
        n_characters = 0
        try:
            for part in self._compiled.generate(
                messages=[{"role": message.role, "content": message.content} for message in messages],
                add_generation_prompt=add_generation_prompt,
                bos_token=self._bos_text,
                eos_token=self._eos_text,
                tools=None,
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


def _fold_system(messages: Sequence[Message]) -> list[Message]:
    folded: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message.content)
        elif message.role == "user" and waiting:
            folded.append(Message("user", "\n\n".join([*waiting, message.content])))
            waiting = []
        else:
            folded.append(message)
    return folded + ([Message("user", "\n\n".join(waiting))] if waiting else [])


def _guarded(messages: list[Message], specials: SpecialTexts, source: str) -> tuple[list[Message], dict[str, str]]:
    """Contents with a stand-in for each risky stretch, and stand-in -> original text."""
    taken = set(source).union(*(message.content for message in messages))
    free = (chr(code) for code in STAND_INS if chr(code) not in taken)
    stand_ins: dict[str, str] = {}
    guarded = []
    for message in messages:
        content = ""
        end = 0
        for start, stop in specials.risky_spans(message.content):
            risky = message.content[start:stop]
            if risky not in stand_ins:
                stand_ins[risky] = next(free)
            content += message.content[end:start] + stand_ins[risky]
            end = stop
        guarded.append(Message(message.role, content + message.content[end:]))
    return guarded, {character: text for text, character in stand_ins.items()}
