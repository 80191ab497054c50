"""The commands of a chat: lines that begin with "/". One table says how each is spelt, and what it does."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from edgespec.choice import AUTO, DRAFTERS, OFF
from edgespec.cli.paint import choose_look
from edgespec.cli.session import Session
from edgespec.cli.settings import SETTINGS, change, find, normalised, read_draft, read_switch
from edgespec.errors import BadInput


@dataclass(frozen=True, slots=True)
class Command:
    """`argument` is how help spells it. `act` gets what follows the name; it raises EdgeSpecError. `suggest` gives the
    words that Tab offers, from what follows the name so far.
    """

    argument: str
    summary: str
    details: str
    act: Callable[[Session, str], None]
    suggest: Callable[[str], Iterable[str]] = lambda _typed: ()


class LeaveChat(Exception):
    """The wish to leave, raised by /exit."""


def is_command(text: str) -> bool:
    """A message that shall begin with a slash is typed with a space before it."""
    return text.startswith("/")


def perform(session: Session, text: str) -> None:
    """Do what a line that begins with "/" says. Raises EdgeSpecError and LeaveChat."""
    name, _, argument = text.strip().partition(" ")
    find_command(name).act(session, argument.strip())


def find_command(name: str) -> Command:
    """By its name with or without the slash. Raises BadInput, with the nearest name."""
    key = "/" + name.lstrip("/").lower()
    command = COMMANDS.get(key)
    if command is None:
        close = difflib.get_close_matches(key, COMMANDS, n=1)
        hint = f"perhaps you mean {close[0]}; " if close else ""
        raise BadInput(
            f"command {name}",
            "there is none of this name",
            f"{hint}/help lists them, and a message that begins with '/' is typed with a space before it",
        )
    return command


def suggestions(typed: str) -> Iterable[str]:
    """The words that Tab offers for the last word of a command line."""
    name, blank, argument = typed.partition(" ")
    if not blank:
        return COMMANDS
    command = COMMANDS.get(name)
    return command.suggest(argument) if command else ()


# -- what they do -----------------------------------------------------------------------------------------------


def _help(session: Session, argument: str) -> None:
    if not argument:
        session.screen.pairs((f"{name} {c.argument}".strip(), c.summary) for name, c in COMMANDS.items())
        session.screen.dim("Ctrl-J or a backslash begins a new line, Ctrl-C stops an answer, Ctrl-D leaves.")
        return
    command = find_command(argument)
    session.screen.line(f"/{argument.lstrip('/')} {command.argument}".strip())
    session.screen.dim(f"{command.summary}. {command.details}".strip())


def _clear(session: Session, argument: str) -> None:
    _no_argument("/clear", argument)
    session.clear()
    session.screen.dim("cleared")


def _undo(session: Session, argument: str) -> None:
    _no_argument("/undo", argument)
    question = session.conversation.undo()
    session.screen.dim(f"took back: {_shortened(question.content)}")


def _regen(session: Session, argument: str) -> None:
    _no_argument("/regen", argument)
    if session.options.sampling.temperature == 0:
        session.screen.dim("at temperature 0 the answer will be the same; '/set temperature 0.7' makes it vary")
    session.ask_again()


def _save(session: Session, argument: str) -> None:
    _report_save(session, argument, replacing=False)


def _save_over(session: Session, argument: str) -> None:
    _report_save(session, argument, replacing=True)


def _report_save(session: Session, argument: str, replacing: bool) -> None:
    path = _path("/save", argument)
    n_messages = session.save(path, replacing)
    session.screen.dim(f"saved {n_messages} messages to {path}")


def _load(session: Session, argument: str) -> None:
    path = _path("/load", argument)
    transcript = session.load(path)
    session.screen.dim(f"loaded {len(transcript.messages)} messages from {path}, said with {transcript.model}")


def _model(session: Session, argument: str) -> None:
    if argument:
        session.switch_model(argument)
    session.screen.dim(f"model {session.model.name}")


def _draft(session: Session, argument: str) -> None:
    if argument:
        session.options = replace(session.options, draft=read_draft(argument))
    session.screen.dim(f"draft {session.options.draft.value}")


def _system(session: Session, argument: str) -> None:
    if argument:
        session.set_system("" if argument == "-" else argument)
    session.screen.dim(f"system prompt: {session.system}" if session.system else "no system prompt")


def _set(session: Session, argument: str) -> None:
    name, _, value = argument.partition(" ")
    if not name:
        session.screen.pairs([*((n, s.show(session.options)) for n, s in SETTINGS.items()), _color_row(session)])
    elif normalised(name) == "color":
        _set_color(session, value.strip())
    else:
        if value.strip():
            session.options = change(session.options, name, value.strip())
        session.screen.dim(f"{normalised(name)} {find(name).show(session.options)}")


def _set_color(session: Session, value: str) -> None:
    if value:
        session.screen.look = choose_look(read_switch("color", value))
    session.screen.dim(" ".join(_color_row(session)))


def _color_row(session: Session) -> tuple[str, str]:
    return "color", "on" if session.screen.look.tints else "off"


def _stats(session: Session, argument: str) -> None:
    _no_argument("/stats", argument)
    session.screen.pairs(session.totals.rows())


def _exit(_session: Session, argument: str) -> None:
    _no_argument("/exit", argument)
    raise LeaveChat


def _no_argument(name: str, argument: str) -> None:
    if argument:
        raise BadInput(f"{name} {argument!r}", "it takes no argument", f"write {name} alone")


def _path(name: str, argument: str) -> Path:
    """The rest of the line, quotes around it or not; ~ is the home folder."""
    text = argument[1:-1] if len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "'\"" else argument
    if not text:
        raise BadInput(name, "it needs the name of a file", f"write '{name} chat.json'")
    return Path(text).expanduser()


def _shortened(text: str, n: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= n else line[: n - 1] + "…"


# -- what Tab offers --------------------------------------------------------------------------------------------


def _files(typed: str) -> Iterable[str]:
    """Paths that begin as typed; folders end in a slash."""
    head, slash, _ = typed.rpartition("/")
    folder = Path(head + slash).expanduser() if head + slash else Path()
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [f"{head}{slash}{entry.name}{'/' if entry.is_dir() else ''}" for entry in entries]


def _setting_names(typed: str) -> Iterable[str]:
    if " " in typed:
        return ("on", "off")
    return [*SETTINGS, "color"]


def _draft_choices(_typed: str) -> Iterable[str]:
    return [AUTO, OFF, *DRAFTERS]


def _models(_typed: str) -> Iterable[str]:
    from edgespec.library.card import load_cards

    return [card.id for card in load_cards()]


def _command_names(_typed: str) -> Iterable[str]:
    return [name.lstrip("/") for name in COMMANDS]


_FILE_DETAILS = "The ending says how: .json keeps everything and can be loaded, .md and .txt are for reading."

COMMANDS: dict[str, Command] = {
    "/help": Command("[COMMAND]", "List the commands, or explain one", "", _help, _command_names),
    "/clear": Command("", "Forget what was said", "The system prompt stays.", _clear),
    "/undo": Command("", "Take back the last question and its answer", "", _undo),
    "/regen": Command("", "Answer the last question again", "Every time with the next seed.", _regen),
    "/save": Command("FILE", "Write the chat to a file", _FILE_DETAILS, _save, _files),
    "/save!": Command("FILE", "The same, replacing a file that is there", _FILE_DETAILS, _save_over, _files),
    "/load": Command("FILE", "Go on from a saved .json file", "What was said here is dropped.", _load, _files),
    "/model": Command(
        "[NAME]",
        "Go on with another model",
        "NAME is a file, a name from 'edgespec models', or hf:user/repo. If it cannot be opened, the old one stays.",
        _model,
        _models,
    ),
    "/draft": Command(
        "[auto|off|NAMES|MODEL]",
        "Choose where guesses come from",
        "auto: what pays. off: plain decoding. lookup: what followed the same words before.",
        _draft,
        _draft_choices,
    ),
    "/system": Command("[TEXT]", "Show or replace the system prompt", "'/system -' removes it.", _system),
    "/set": Command(
        "[NAME [VALUE]]",
        "Show or change a setting",
        f"The names are {', '.join([*SETTINGS, 'color'])}.",
        _set,
        _setting_names,
    ),
    "/stats": Command("", "Show the sums of this session", "", _stats),
    "/exit": Command("", "Leave; Ctrl-D does the same", "", _exit),
}
