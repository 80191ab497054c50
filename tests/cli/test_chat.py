from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from edgespec.cli.chat import talk
from edgespec.cli.commands import suggestions
from edgespec.cli.prompt import PipedMessages, TerminalPrompt
from edgespec.cli.session import Session
from edgespec.engine import GenerateOptions
from edgespec.events import Finish
from tests.cli.conftest import Invoke, PressesCtrlC

GREEDY = ("--temperature", "0", "--max-tokens", "12")
ENTER, CTRL_C, CTRL_D = "\r", "\x03", "\x04"


def talk_by_keys(session: Session, keys: str) -> None:
    with create_pipe_input() as keyboard:
        keyboard.send_text(keys)
        talk(session, TerminalPrompt(suggestions, InMemoryHistory(), keyboard, DummyOutput()))


# -- at a terminal ----------------------------------------------------------------------------------------------


def test_a_session_by_keys(session: Session, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    lines = ["the river", "", "and then", "/undo", f"/save {path}", "/clear", f"/load {path}", CTRL_D]
    talk_by_keys(session, ENTER.join(lines))
    shown = capsys.readouterr()
    greeting, settings, *notes = shown.err.splitlines()
    assert greeting == "toy · F32 · context 512 · 1 thread"
    assert "temperature 0 · draft auto · /help" in settings
    assert [line.partition(" ")[0] for line in notes] == ["this", "cut", "cut", "took", "saved", "cleared", "loaded"]
    assert [message.content for message in session.conversation.messages][:1] == ["the river"]
    assert len(session.conversation.messages) == 2


def test_several_pasted_lines_are_one_message(session: Session) -> None:
    talk_by_keys(session, f"\x1b[200~/etc is\na folder\x1b[201~{CTRL_C}\x1b[200~one\ntwo\x1b[201~{ENTER}/exit{ENTER}")
    assert session.conversation.messages[0].content == "one\ntwo"


def test_ctrl_c_at_the_prompt_gives_a_hint(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    talk_by_keys(session, f"half{CTRL_C}{CTRL_D}")
    assert "Ctrl-D or /exit leaves" in capsys.readouterr().err
    assert session.conversation.messages == ()


def test_ctrl_c_in_an_answer_stops_the_answer_only(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.options = GenerateOptions(max_tokens=400)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", PressesCtrlC())
        talk_by_keys(session, f"the river{ENTER}and then{ENTER}/exit{ENTER}")
    assert session.totals.answers == 2
    assert 0 < session.totals.completion_tokens < 800


def test_ctrl_c_in_a_command_stops_the_command_only(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "switch_model", interrupted)
    talk_by_keys(session, f"/model other{ENTER}/model{ENTER}{CTRL_D}")
    assert capsys.readouterr().err.splitlines()[2:] == ["stopped", "model toy"]


# -- from a pipe ------------------------------------------------------------------------------------------------


def test_a_pipe_is_a_session_without_greeting(invoke: Invoke, toy: Path) -> None:
    result = invoke("chat", toy, *GREEDY, "--draft", "off", stdin="the river\n\n/undo\nthe river\n")
    assert result.exit_code == 0
    first, _took, second = result.stderr.splitlines()
    assert first.startswith("cut here after 12 tokens")
    assert second.startswith("cut here after 12 tokens")
    assert len(result.stdout) % 2 == 0
    half = len(result.stdout) // 2
    assert result.stdout[:half] == result.stdout[half:]


def test_errors_are_said_and_the_session_goes_on(invoke: Invoke, toy: Path, tmp_path: Path) -> None:
    lines = [
        "/undo",
        "/load none.json",
        f"/model {tmp_path / 'none.gguf'}",
        "/set top_p 2",
        "/nothing",
        "x" * 5000,
        "/model",
    ]
    result = invoke("chat", toy, *GREEDY, stdin="\n".join(lines))
    assert result.exit_code == 0
    *errors, last = result.stderr.splitlines()
    assert len(errors) == len(lines) - 1
    assert all(line.startswith("Error: ") for line in errors)
    assert last == "model toy"
    assert result.stdout == ""


def test_exit_leaves_what_follows(invoke: Invoke, toy: Path) -> None:
    result = invoke("chat", toy, *GREEDY, stdin="/exit\nthe river\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_ctrl_c_ends_a_piped_session(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.options = GenerateOptions(max_tokens=400)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", PressesCtrlC())
        with pytest.raises(KeyboardInterrupt):
            talk(session, PipedMessages([b"the river\n", b"and then\n"]))
    assert session.totals.answers == 1


def test_a_pipe_that_is_not_utf8_ends_the_session(invoke: Invoke, toy: Path) -> None:
    result = invoke("chat", toy, stdin=b"caf\xe9\n")
    assert result.exit_code == 13
    assert "UTF-8" in result.stderr


# -- options ----------------------------------------------------------------------------------------------------


def test_system_and_template_are_used(invoke: Invoke, toy: Path, base_toy: Path) -> None:
    result = invoke("chat", toy, "--system", "Be brief.", stdin="/system\n")
    assert result.stderr == "system prompt: Be brief.\n"
    assert "not trained to chat" in invoke("chat", base_toy, stdin="/model\n").stderr
    assert "not trained to chat" not in invoke("chat", base_toy, "--template", "chatml", stdin="/model\n").stderr
    assert invoke("chat", toy, "--template", "none.jinja", stdin="/model\n").exit_code == 13


def test_the_defaults_of_a_chat_are_lively(invoke: Invoke, toy: Path) -> None:
    result = invoke("chat", toy, stdin="/set temperature\n/set top_p\n/set max_tokens\n")
    assert result.stderr.splitlines() == ["temperature 0.7", "top_p 0.95", "max_tokens 1024"]


def test_a_seed_makes_a_session_repeat(invoke: Invoke, toy: Path) -> None:
    first, second = (
        invoke("chat", toy, "--seed", "5", "--max-tokens", "12", stdin="the river\n/regen\n").stdout for _ in range(2)
    )
    assert first == second


def test_finish_names_are_stable() -> None:
    assert Finish.CANCELLED.value == "cancelled"
