from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.cli.commands import COMMANDS, LeaveChat, find_command, is_command, perform, suggestions
from edgespec.cli.session import Session
from edgespec.engine import DraftChoice
from edgespec.errors import BadInput


def said(session: Session, capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What a command says; it must say nothing on stdout."""
    capsys.readouterr()
    perform(session, line)
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err


def test_a_message_with_a_space_in_front_is_no_command() -> None:
    assert is_command("/help")
    assert not is_command(" /help")
    assert not is_command("help")


def test_an_unknown_command_gets_a_suggestion() -> None:
    with pytest.raises(BadInput, match="/undo"):
        find_command("/und")
    with pytest.raises(BadInput, match="/help lists"):
        find_command("/xyzzy")
    assert find_command("UNDO") is COMMANDS["/undo"]


def test_help_names_every_command_and_explains_each(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    listed = said(session, capsys, "/help")
    for name, command in COMMANDS.items():
        assert name in listed
        assert command.summary in listed
        assert command.summary in said(session, capsys, f"/help {name}")
    with pytest.raises(BadInput):
        perform(session, "/help nothing")


@pytest.mark.parametrize("name", ["/clear", "/undo", "/regen", "/stats", "/exit"])
def test_commands_without_argument_refuse_one(session: Session, name: str) -> None:
    with pytest.raises(BadInput, match="no argument"):
        perform(session, f"{name} now")


def test_undo_takes_back_the_last_turn(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.ask("the   river\nruns")
    session.ask("x" * 200)
    assert len(said(session, capsys, "/undo")) < 90
    assert said(session, capsys, "/undo") == "took back: the river runs\n"
    assert session.conversation.messages == ()
    with pytest.raises(BadInput, match="nothing has been said"):
        perform(session, "/undo")


def test_clear_forgets(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.ask("the river")
    assert said(session, capsys, "/clear") == "cleared\n"
    assert session.conversation.messages == ()


def test_regen_says_that_greedy_answers_stay(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.ask("the river")
    capsys.readouterr()
    perform(session, "/regen")
    assert "temperature 0" in capsys.readouterr().err
    perform(session, "/set temperature 0.9")
    capsys.readouterr()
    perform(session, "/regen")
    assert "temperature 0" not in capsys.readouterr().err


def test_save_and_load(session: Session, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    session.ask("the river")
    path = tmp_path / "my chat.json"
    assert said(session, capsys, f"/save {path}") == f"saved 2 messages to {path}\n"
    perform(session, "/clear")
    assert said(session, capsys, f"/load '{path}'") == f"loaded 2 messages from {path}, said with toy\n"
    assert len(session.conversation.messages) == 2
    (tmp_path / "other.txt").write_text("precious")
    with pytest.raises(BadInput, match="/save! "):
        perform(session, f"/save {tmp_path / 'other.txt'}")
    perform(session, f'/save! "{tmp_path / "other.txt"}"')
    assert (tmp_path / "other.txt").read_text("utf-8").startswith("User:")
    for line in ("/save", "/load", "/save ''"):
        with pytest.raises(BadInput, match="name of a file"):
            perform(session, line)


def test_model(session: Session, capsys: pytest.CaptureFixture[str], other_toy: Path) -> None:
    assert said(session, capsys, "/model") == "model toy\n"
    assert said(session, capsys, f"/model {other_toy}") == "model other\n"


def test_draft(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(session, capsys, "/draft") == "draft auto\n"
    assert said(session, capsys, "/draft off") == "draft off\n"
    assert session.options.draft is DraftChoice.OFF
    with pytest.raises(BadInput, match="auto, off, or among lookup"):
        perform(session, "/draft most")


def test_system(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(session, capsys, "/system") == "no system prompt\n"
    assert said(session, capsys, "/system Be  brief.") == "system prompt: Be  brief.\n"
    assert said(session, capsys, "/system -") == "no system prompt\n"


def test_set(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(session, capsys, "/set top-p 0.5") == "top_p 0.5\n"
    assert said(session, capsys, "/set top_p") == "top_p 0.5\n"
    assert session.options.sampling.top_p == 0.5
    assert "max_tokens" in said(session, capsys, "/set")
    with pytest.raises(BadInput, match="hot"):
        perform(session, "/set temperature hot")
    with pytest.raises(BadInput, match="warmth"):
        perform(session, "/set warmth")


def test_color_can_be_switched_but_not_against_no_color(
    session: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(session, capsys, "/set color on") == "color on\n"
    assert session.screen.look.tints
    assert said(session, capsys, "/set color off") == "color off\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert said(session, capsys, "/set color on") == "color off\n"
    with pytest.raises(BadInput, match="green"):
        perform(session, "/set color green")


def test_stats_are_the_session_s(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.ask("the river")
    session.ask("and then")
    assert "2, 48 tokens" in said(session, capsys, "/stats")


def test_exit_leaves(session: Session) -> None:
    with pytest.raises(LeaveChat):
        perform(session, "/exit")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/", "/help"),
        ("/help ", "save!"),
        ("/draft ", "lookup"),
        ("/set ", "color"),
        ("/set exact ", "off"),
        ("/model ", "smollm2-135m"),
    ],
)
def test_tab_offers_what_can_follow(typed: str, offered: str) -> None:
    assert offered in list(suggestions(typed))


def test_tab_offers_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "chat.json").touch()
    head = tmp_path.as_posix()
    assert list(suggestions(f"/load {head}/")) == [f"{head}/chat.json", f"{head}/folder/"]
    assert list(suggestions(f"/load {head}/none/x")) == []
    assert list(suggestions("/nothing x")) == []
