from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.cli.session import Session
from edgespec.engine import GenerateOptions
from edgespec.errors import BadInput, ContextOverflow, CorruptModel, ModelNotFound
from edgespec.events import Finish
from edgespec.spec.law import SamplingSettings
from edgespec.text.template import Message
from tests.cli.conftest import PressesCtrlC


def roles(session: Session) -> list[str]:
    return [message.role for message in session.conversation.messages]


def test_a_question_and_its_answer_are_kept_and_shown(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    completion = session.ask("the river")
    shown = capsys.readouterr()
    assert shown.out == completion.text + "\n"
    not_tuned, stats = shown.err.splitlines()
    assert "edgespec tune" in not_tuned
    assert stats.startswith("cut here after 24 tokens · ")
    assert session.conversation.messages == (Message("user", "the river"), Message("assistant", completion.text))
    assert session.totals.answers == 1


def test_ctrl_c_keeps_the_part_that_came_and_the_session(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.options = GenerateOptions(max_tokens=400)
    with monkeypatch.context() as patch:
        out = PressesCtrlC()
        patch.setattr("sys.stdout", out)
        completion = session.ask("the river")
    assert completion.finish is Finish.CANCELLED
    assert out.getvalue().rstrip("\n") == completion.text.rstrip("\n") != ""
    assert session.conversation.messages[-1] == Message("assistant", completion.text)
    session.options = GenerateOptions(max_tokens=5)
    assert session.ask("and then").finish is Finish.LENGTH
    assert roles(session) == ["user", "assistant", "user", "assistant"]


def test_a_question_that_fails_is_taken_back(session: Session) -> None:
    session.ask("the river")
    before = session.conversation.messages
    with pytest.raises(ContextOverflow):
        session.ask("the river " * 500)
    with pytest.raises(BadInput):
        session.ask("caf\udce9")
    assert session.conversation.messages == before
    session.options = replace(session.options, sampling=SamplingSettings(banned=(10**6,)))
    with pytest.raises(BadInput):  # this one fails inside the engine, when the prompt has been read
        session.ask("and then")
    assert session.conversation.messages == before
    session.options = GenerateOptions(max_tokens=5)
    assert session.ask("and then").usage.completion_tokens == 5


def test_asking_again_takes_the_next_seed(session: Session) -> None:
    warm = SamplingSettings(temperature=0.9, seed=2**64 - 1)
    session.options = GenerateOptions(max_tokens=24, sampling=warm)
    first = session.ask("the river")
    second = session.ask_again()
    assert second.text != first.text
    assert second.timings.seed == 0
    assert session.conversation.messages == (Message("user", "the river"), Message("assistant", second.text))


def test_asking_again_in_vain_keeps_the_old_answer(session: Session) -> None:
    with pytest.raises(BadInput, match="nothing has been said"):
        session.ask_again()
    session.ask("the river")
    before = session.conversation.messages
    broken = GenerateOptions(sampling=SamplingSettings(banned=(10**6,)))
    session.options = broken
    with pytest.raises(BadInput):
        session.ask_again()
    assert session.conversation.messages == before
    assert session.options == broken


def test_the_system_prompt_comes_and_goes_without_the_chat(session: Session) -> None:
    session.ask("the river")
    assert session.system == ""
    session.set_system("the dog")
    assert (session.system, roles(session)) == ("the dog", ["system", "user", "assistant"])
    session.set_system("the man")
    assert (session.system, roles(session)) == ("the man", ["system", "user", "assistant"])
    session.ask("and then")
    session.clear()
    assert roles(session) == ["system"]
    session.set_system("")
    assert roles(session) == []


def test_a_loaded_chat_goes_on_the_same_way_every_time(session: Session, tmp_path: Path) -> None:
    session.ask("the river")
    assert session.save(tmp_path / "chat.json", replacing=False) == 2
    saved = session.conversation.messages
    answers = []
    for _ in range(3):
        session.load(tmp_path / "chat.json")
        assert session.conversation.messages == saved
        answers.append(session.ask("and then").text)
    # The first goes on from the very tokens; the toy says bytes that are no text, which a file cannot keep.
    assert answers[1] == answers[2]


def test_only_its_own_files_are_replaced_unasked(session: Session, tmp_path: Path) -> None:
    foreign, own = tmp_path / "foreign.md", tmp_path / "own.md"
    foreign.write_text("precious")
    with pytest.raises(BadInput, match="exists"):
        session.save(foreign, replacing=False)
    assert foreign.read_text() == "precious"
    session.save(own, replacing=False)
    session.ask("the river")
    session.save(own, replacing=False)
    session.save(foreign, replacing=True)
    assert foreign.read_text("utf-8") == own.read_text("utf-8") != "precious"


def test_a_transcript_that_is_wrong_changes_nothing(session: Session, tmp_path: Path) -> None:
    session.ask("the river")
    before = session.conversation.messages
    (tmp_path / "chat.json").write_text('{"format": 1, "model": "m", "messages": [{"role": "user", "content": "x"}]}')
    with pytest.raises(BadInput):
        session.load(tmp_path / "chat.json")
    assert session.conversation.messages == before


def test_another_model_goes_on_with_the_chat(session: Session, other_toy: Path) -> None:
    session.ask("the river")
    before = session.conversation.messages
    session.switch_model(str(other_toy))
    assert session.model.name == "other"
    assert session.conversation.messages == before
    assert session.ask("and then").usage.completion_tokens == 24


def test_a_model_that_cannot_be_opened_leaves_the_old_one(session: Session, tmp_path: Path) -> None:
    session.ask("the river")
    before, model = session.conversation.messages, session.model
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    with pytest.raises(CorruptModel):
        session.switch_model(str(tmp_path / "bad.gguf"))
    with pytest.raises(ModelNotFound):
        session.switch_model(str(tmp_path / "none.gguf"))
    assert session.model is model
    assert session.conversation.messages == before
    assert session.ask("and then").usage.completion_tokens == 24


def test_a_model_without_a_template_says_how_it_chats(
    session: Session, base_toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session.explain_template(None)
    assert capsys.readouterr().err == ""
    session.switch_model(str(base_toy))
    assert "not trained to chat" in capsys.readouterr().err
