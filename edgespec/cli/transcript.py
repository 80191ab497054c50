"""A chat in a file: exact as JSON, readable as Markdown or plain text. Loading reads all of it or nothing."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgespec.cli.inputs import read_text
from edgespec.errors import BadInput, DiskFull
from edgespec.records import write_atomically
from edgespec.text.template import Message

# Raise when the meaning of a key changes; a file of another format is refused, not guessed at.
FORMAT = 1
EXACT = ".json"
READABLE = (".md", ".txt")
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Transcript:
    model: str
    messages: tuple[Message, ...]


def save(path: Path, transcript: Transcript, write: Callable[[Path, str], None] = write_atomically) -> None:
    """Write the format that the file's ending asks for; the file is replaced whole or not at all.

    Raises BadInput for another ending or a place that cannot be written, DiskFull when there is no room.
    """
    text = _format(path, transcript)
    try:
        write(path, text)
    except OSError as error:
        what, why = f"cannot save to {path}", error.strerror or str(error)
        if error.errno in _DISK_FULL:
            raise DiskFull(what, why, "make room, or save to another disk") from None
        raise BadInput(what, why, "name a file in a folder you may write") from None


def load(path: Path) -> Transcript:
    """Read what `save` wrote as .json. Raises BadInput, which names the first thing that is wrong."""
    text = read_text(path, "transcript")
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise _unusable(path, f"it is no JSON ({error})") from None
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise _unusable(path, f"it is no transcript of format {FORMAT}")
    model, entries = raw.get("model"), raw.get("messages")
    if not isinstance(model, str) or not isinstance(entries, list):
        raise _unusable(path, "'model' must be a text and 'messages' a list")
    messages = tuple(_message(path, n, entry) for n, entry in enumerate(entries, 1))
    _require_turns(path, messages)
    return Transcript(model, messages)


def _message(path: Path, n: int, entry: object) -> Message:
    if not isinstance(entry, dict) or set(entry) != {"role", "content"}:
        raise _unusable(path, f"message {n} must have a 'role' and a 'content', and nothing else")
    role, content = entry["role"], entry["content"]
    if not isinstance(role, str) or not isinstance(content, str):
        raise _unusable(path, f"message {n} has a role or content that is no text")
    try:
        content.encode("utf-8")
        return Message(role, content)
    except UnicodeEncodeError:
        raise _unusable(path, f"message {n} is not valid Unicode") from None
    except BadInput as error:
        raise _unusable(path, f"message {n}: {error.what}: {error.why}") from None


def _require_turns(path: Path, messages: Sequence[Message]) -> None:
    """A system prompt or none, then questions and answers in turn: what templates can render."""
    turns = messages[1:] if messages and messages[0].role == "system" else messages
    for n, message in enumerate(turns, 1 + len(messages) - len(turns)):
        expected = "user" if (n - (len(messages) - len(turns))) % 2 else "assistant"
        if message.role != expected:
            raise _unusable(path, f"message {n} is said by {message.role}, where {expected} has the turn")
    if len(turns) % 2:
        raise _unusable(path, "its last question has no answer")


def _unusable(path: Path, why: str) -> BadInput:
    return BadInput(f"transcript {path}", why, "load a .json file that '/save' wrote")


def _format(path: Path, transcript: Transcript) -> str:
    suffix = path.suffix.lower()
    if suffix == EXACT:
        return _as_json(transcript)
    if suffix in READABLE:
        return _as_text(transcript, heading="## {}" if suffix == ".md" else "{}:")
    raise BadInput(f"cannot save to {path}", f"the ending {suffix!r} says no format", "use .json, .md or .txt")


def _as_json(transcript: Transcript) -> str:
    entries = [{"role": message.role, "content": message.content} for message in transcript.messages]
    whole = {"format": FORMAT, "model": transcript.model, "messages": entries}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _as_text(transcript: Transcript, heading: str) -> str:
    """Every message under a heading that names its role."""
    parts = [f"{heading.format(m.role.capitalize())}\n\n{m.content.strip()}\n" for m in transcript.messages]
    return "\n".join(parts)
