"""Messages and tools as published chat templates expect them: Hugging Face's convention of plain objects.

And the guard, which keeps texts that spell special tokens apart on their way through a template. Knows no template.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from edgespec.text.folding import function_of
from edgespec.text.messages import Message, Tool, ToolCall, read_object, unknown_call
from edgespec.text.vocab import SpecialTexts

# Stand-ins for risky text come from here (private use); characters that occur in the conversation are passed over.
STAND_INS = range(0xF0000, 0x10FFFE)

JsonObject = dict[str, object]
# From a text that somebody wrote to what the template gets in its place.
TextGuard = Callable[[str], str]


def hugging_messages(messages: Sequence[Message], guard: TextGuard) -> list[JsonObject]:
    """`guard` is given every text that somebody wrote. Raises BadInput for a result without a call before it."""
    numbers: dict[str, str] = {}
    plain = []
    for message in messages:
        for call in message.calls:
            # Mistral's templates demand nine letters or digits.
            numbers[call.id] = f"call{len(numbers):05d}"
        plain.append(_message(message, numbers, guard))
    return plain


def hugging_tools(tools: Sequence[Tool], guard: TextGuard) -> list[JsonObject]:
    return [{"type": "function", "function": _function(tool, guard)} for tool in tools]


def _message(message: Message, numbers: dict[str, str], guard: TextGuard) -> JsonObject:
    plain: JsonObject = {"role": message.role, "content": guard(message.content)}
    if message.call_id:
        plain["tool_call_id"] = _known(numbers, message.call_id)
    # Templates ask whether the key is there, so it is there only with calls.
    if message.calls:
        plain["tool_calls"] = [
            {"id": numbers[call.id], "type": "function", "function": _called(call, guard)} for call in message.calls
        ]
    return plain


def _known(numbers: dict[str, str], call_id: str) -> str:
    if call_id not in numbers:
        raise unknown_call(call_id)
    return numbers[call_id]


def _called(call: ToolCall, guard: TextGuard) -> JsonObject:
    return {"name": guard(call.name), "arguments": _guarded(read_object(call.arguments, "the arguments"), guard)}


def _function(tool: Tool, guard: TextGuard) -> JsonObject:
    return {name: _guarded(value, guard) for name, value in function_of(tool).items()}


def _guarded(value: object, guard: TextGuard) -> object:
    if isinstance(value, str):
        return guard(value)
    if isinstance(value, list):
        return [_guarded(one, guard) for one in value]
    if isinstance(value, dict):
        return {guard(name): _guarded(one, guard) for name, one in value.items()}
    return value


class StandIns:
    """A guard: puts a stand-in for each risky stretch of a text. originals: stand-in -> what it stands for, so far.

    taken: characters that occur somewhere, so that they can stand for nothing else.
    """

    def __init__(self, specials: SpecialTexts, taken: Collection[str]) -> None:
        self.originals: dict[str, str] = {}
        self._specials = specials
        self._free = (chr(code) for code in STAND_INS if chr(code) not in taken)
        self._stand_ins: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        guarded = ""
        end = 0
        for start, stop in self._specials.risky_spans(text):
            guarded += text[end:start] + self._stand_in(text[start:stop])
            end = stop
        return guarded + text[end:]

    def _stand_in(self, risky: str) -> str:
        if risky not in self._stand_ins:
            stand_in = self._stand_ins[risky] = next(self._free)
            self.originals[stand_in] = risky
        return self._stand_ins[risky]


def characters_of(messages: Sequence[Message], tools: Sequence[Tool]) -> set[str]:
    """All that occur in what a template is given."""
    taken: set[str] = set()

    def take(text: str) -> str:
        taken.update(text)
        return text

    hugging_messages(messages, take)
    hugging_tools(tools, take)
    return taken
