from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.cli.transcript import Transcript, load, save
from edgespec.errors import BadInput, DiskFull
from edgespec.text.template import Message

CHAT = Transcript("toy", (Message("system", "Be brief."), Message("user", "Hi\nthere"), Message("assistant", "Hé.")))
texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(model=texts, system=st.lists(texts, max_size=1), turns=st.lists(st.tuples(texts, texts), max_size=3))
def test_json_keeps_everything(
    tmp_path_factory: pytest.TempPathFactory, model: str, system: list[str], turns: list[tuple[str, str]]
) -> None:
    said = [Message("system", text) for text in system]
    for question, answer in turns:
        said += [Message("user", question), Message("assistant", answer)]
    path = tmp_path_factory.mktemp("chat") / "chat.json"
    transcript = Transcript(model, tuple(said))
    save(path, transcript)
    assert load(path) == transcript


def test_markdown_and_text_are_for_reading(tmp_path: Path) -> None:
    save(tmp_path / "chat.md", CHAT)
    save(tmp_path / "chat.txt", CHAT)
    assert (tmp_path / "chat.md").read_text("utf-8") == (
        "## System\n\nBe brief.\n\n## User\n\nHi\nthere\n\n## Assistant\n\nHé.\n"
    )
    assert (tmp_path / "chat.txt").read_text("utf-8").startswith("System:\n\nBe brief.\n")


@pytest.mark.parametrize("name", ["chat", "chat.docx", "none/chat.json"])
def test_what_cannot_be_saved_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput):
        save(tmp_path / name, CHAT)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    save(path, CHAT)

    def full(_path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DiskFull, match=r"chat\.json"):
        save(path, Transcript("toy", ()), full)
    assert load(path) == CHAT


def entry(role: object, content: object = "x") -> dict[str, object]:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "no JSON"),
        ("[]", "no transcript"),
        ('{"format": 2, "model": "m", "messages": []}', "format 1"),
        ('{"format": 1, "messages": []}', "'model'"),
        ('{"format": 1, "model": "m", "messages": {}}', "'messages'"),
    ],
)
def test_a_file_that_is_no_transcript(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=complaint):
        load(path)


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        (["user"], "message 1"),
        ([{"role": "user"}], "message 1"),
        ([{**entry("user"), "name": "Ada"}], "message 1"),
        ([entry("user"), entry("assistant", 3)], "message 2"),
        ([entry("user"), entry("robot")], "robot"),
        ([entry("user", "\ud800")], "message 1 is not valid Unicode"),
        ([entry("assistant")], "message 1 is said by assistant"),
        ([entry("system"), entry("user"), entry("user")], "message 3 is said by user"),
        ([entry("user"), entry("assistant"), entry("system")], "message 3 is said by system"),
        ([entry("system"), entry("user")], "last question"),
    ],
)
def test_messages_that_are_wrong(tmp_path: Path, messages: list[object], complaint: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"format": 1, "model": "m", "messages": messages}))
    with pytest.raises(BadInput, match=complaint):
        load(path)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="none"):
        load(tmp_path / "none.json")
    (tmp_path / "chat.json").write_bytes(b"\xff")
    with pytest.raises(BadInput, match="UTF-8"):
        load(tmp_path / "chat.json")
