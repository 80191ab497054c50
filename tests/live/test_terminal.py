"""A chat in a real terminal with a real model: keys go in through tmux, and the text on the screen is asserted on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

pytestmark = pytest.mark.live

# Far more than any step takes; only a chat that hangs meets it.
DEADLINE_SECONDS = 180.0
POLL_SECONDS = 0.05
PROGRAM = "from edgespec.cli.main import main; main()"


class Terminal:
    """One tmux window of its own server. `screen` is all that was shown, lines joined that the window had wrapped."""

    def __init__(self) -> None:
        tmux = shutil.which("tmux")
        assert tmux, "this test types into a real terminal: install tmux"
        self._tmux = [tmux, "-L", f"edgespec-{uuid4().hex[:12]}", "-f", "/dev/null"]

    def run(self, *command: str, environment: dict[str, str]) -> None:
        """Start the command in a fresh window. A shell prints its exit code; tmux itself loses it now and then."""
        settings = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
        shell = ("sh", "-c", 'trap : INT; "$@"; echo "[exit $?]"; exec cat', "sh")
        self._do("new-session", "-d", "-x", "100", "-y", "40", *settings, *shell, *command)

    def type(self, line: str) -> None:
        self._do("send-keys", "-l", line)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    @property
    def screen(self) -> str:
        shown = self._do("capture-pane", "-p", "-J", "-S", "-")
        return "\n".join(line.rstrip() for line in shown.split("\n"))

    @property
    def exit_code(self) -> int | None:
        """None while the program runs."""
        ended = re.search(r"^\[exit (\d+)\]$", self.screen, re.MULTILINE)
        return int(ended[1]) if ended else None

    def wait(self, condition: Callable[[str], bool]) -> str:
        """The screen, as soon as the condition holds for it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition(screen := self.screen):
            assert time.monotonic() < deadline, f"waited in vain; the screen:\n{screen}"
            assert self.exit_code is None, f"the program has ended; the screen:\n{screen}"
            time.sleep(POLL_SECONDS)
        return screen

    def wait_for(self, text: str) -> str:
        return self.wait(lambda screen: text in screen)

    def wait_for_end(self) -> int:
        """The exit code."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (exit_code := self.exit_code) is None:
            assert time.monotonic() < deadline, f"it does not end; the screen:\n{self.screen}"
            time.sleep(POLL_SECONDS)
        return exit_code

    def close(self) -> None:
        self._do("kill-server")

    def _do(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True).stdout


class Chat:
    """`edgespec chat` in a terminal. Answers are counted by the line about speed that follows each."""

    def __init__(self, terminal: Terminal, model: Path, home: Path) -> None:
        self.terminal = terminal
        self.n_answers = 0
        terminal.run(
            *(sys.executable, "-c", PROGRAM, "chat", str(model)),
            *("--temperature", "0", "--seed", "1", "--threads", "1", "--max-tokens", "60"),
            environment={"EDGESPEC_HOME": str(home), "EDGESPEC_OFFLINE": "1", "LC_ALL": "C.UTF-8"},
        )
        terminal.wait_for("/help lists the commands")

    def ask(self, question: str) -> str:
        """The answer to one question."""
        self.terminal.type(question)
        return self.answer_to(question)

    def answer_to(self, question: str) -> str:
        self.n_answers += 1
        screen = self.terminal.wait(lambda screen: screen.count(" tok/s ") >= self.n_answers)
        answer, _, _ = screen.rpartition(f"> {question}\n")[2].partition(" tok/s ")
        return answer.rpartition("\n")[0]

    def begun(self, question: str) -> Callable[[str], bool]:
        """Has the screen some text of the answer to the question?"""
        asked = f"> {question}\n"
        return lambda screen: asked in screen and len(screen.rpartition(asked)[2].strip()) > 20


@pytest.fixture
def open_terminal() -> Iterator[Callable[[], Terminal]]:
    opened: list[Terminal] = []

    def open_one() -> Terminal:
        opened.append(Terminal())
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()


def test_a_session(open_terminal: Callable[[], Terminal], starter_model: Path, tmp_path: Path) -> None:
    terminal = open_terminal()
    chat = Chat(terminal, starter_model, tmp_path)
    assert "context 4096 · 1 thread" in terminal.screen

    # Two turns.
    assert "Paris" in chat.ask("What is the capital of France? Answer in one sentence.")
    assert chat.ask("And who was Albert Einstein?")

    # Ctrl-C in mid-answer stops the answer; the session goes on.
    terminal.type("/set max_tokens 3000")
    terminal.wait_for("max_tokens 3000")
    story = "Write a very long story about a fox and a crow."
    terminal.type(story)
    terminal.wait(chat.begun(story))
    terminal.press("C-c")
    part = chat.answer_to(story)
    assert len(part.strip()) > 20
    assert "\nstopped · " in terminal.screen
    terminal.type("/set max_tokens 30")
    assert chat.ask("Say hello.")

    # What is typed while an answer comes waits for its end, and is not printed into it.
    terminal.type("What is the capital of Italy?")
    terminal.type("What is the capital of Spain?")
    chat.answer_to("What is the capital of Italy?")
    chat.answer_to("What is the capital of Spain?")

    terminal.type("/undo")
    terminal.wait_for("took back: What is the capital of Spain?")
    terminal.type("/undo")
    terminal.wait_for("took back: What is the capital of Italy?")
    terminal.type("/undo")
    terminal.wait_for("took back: Say hello.")

    path = tmp_path / "chat.json"
    terminal.type(f"/save {path}")
    terminal.wait_for(f"saved 6 messages to {path}")
    messages = json.loads(path.read_text("utf-8"))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3
    assert messages[4]["content"] == story
    assert len(messages[5]["content"]) > 20

    terminal.type("/clear")
    terminal.wait_for("\ncleared\n")
    terminal.type(f"/load {path}")
    terminal.wait_for(f"loaded 6 messages from {path}")
    terminal.type("/undo")
    terminal.wait_for(f"took back: {story}")

    terminal.type("/exit")
    assert terminal.wait_for_end() == 0
    assert "Traceback" not in terminal.screen


def test_the_prompt(open_terminal: Callable[[], Terminal], starter_model: Path, tmp_path: Path) -> None:
    terminal = open_terminal()
    Chat(terminal, starter_model, tmp_path)
    terminal.type("/stats")
    terminal.wait_for("answers  0")
    terminal.press("/", "h", "Tab", "Enter")
    terminal.wait_for("/regen")
    terminal.press("h", "a", "l", "f", "C-c")
    terminal.wait_for("> half\nCtrl-D or /exit leaves")
    terminal.press("C-d")
    assert terminal.wait_for_end() == 0

    # What was typed is there again in the next session.
    later = open_terminal()
    Chat(later, starter_model, tmp_path)

    def goes_back(screen: str) -> bool:
        later.press("Up")  # again, since the history is read in the background
        return "> /stats" in screen

    later.wait(goes_back)
    later.press("C-c", "C-d")
    assert later.wait_for_end() == 0
