from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edgespec import __version__
from edgespec.cli.main import EXIT_CODES, Commands, cli
from edgespec.cli.run import CUT_SHORT
from edgespec.errors import BadInput, EdgeSpecError
from tests.cli.conftest import Invoke
from tools.make_toy_model import truncate


def one_error(invoke: Invoke, *arguments: object, stdin: bytes = b"") -> tuple[int, str]:
    """Exit code and the sentence; nothing else may have been printed."""
    result = invoke(*arguments, stdin=stdin)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    return result.exit_code, lines[0]


# -- what the group does with errors ----------------------------------------------------------------------------


def leaving_by(error: BaseException) -> tuple[int, str]:
    group = Commands("edgespec")

    @group.command()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(group, ["fail"])
    assert result.stdout == ""
    return result.exit_code, result.stderr


@pytest.mark.parametrize("kind", EdgeSpecError.__subclasses__())
def test_every_error_leaves_with_its_sentence_and_its_exit_code(kind: type[EdgeSpecError]) -> None:
    assert leaving_by(kind("a 7", "it is odd", "take an 8")) == (kind.exit_code, "Error: a 7: it is odd; take an 8.\n")


def test_the_help_lists_every_exit_code() -> None:
    listed = {int(number) for number in re.findall(r"(?<!\S)\d+(?=  )", EXIT_CODES)}
    assert listed == {kind.exit_code for kind in EdgeSpecError.__subclasses__()} | {1, 2, CUT_SHORT, 130}


@pytest.mark.parametrize(
    ("error", "exit_code"), [(KeyboardInterrupt(), 130), (click.Abort(), 130), (BrokenPipeError(), 141)]
)
def test_ctrl_c_and_a_closed_pipe_are_silent(error: BaseException, exit_code: int) -> None:
    assert leaving_by(error) == (exit_code, "")


def test_a_usage_error_is_click_s_own() -> None:
    exit_code, text = leaving_by(click.UsageError("not so"))
    assert exit_code == 2
    assert "Error: not so" in text


# -- the errors that a person can cause -------------------------------------------------------------------------


def test_a_missing_file(invoke: Invoke, tmp_path: Path) -> None:
    exit_code, sentence = one_error(invoke, "run", tmp_path / "none.gguf", "hello")
    assert exit_code == 3
    assert str(tmp_path / "none.gguf") in sentence


def test_an_unknown_name(invoke: Invoke) -> None:
    exit_code, sentence = one_error(invoke, "run", "smolm2-135m", "hello")
    assert exit_code == 3
    assert "smollm2-135m" in sentence


def test_a_file_that_is_no_gguf(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_text("<html>404 Not Found</html>")
    assert one_error(invoke, "run", path, "hello")[0] == 4


def test_a_truncated_file(invoke: Invoke, tmp_path: Path, toy: Path) -> None:
    path = tmp_path / "half.gguf"
    path.write_bytes(toy.read_bytes())
    truncate(path, path.stat().st_size // 2)
    assert one_error(invoke, "chat", path)[0] == 4


def test_an_architecture_that_llama_cpp_does_not_know(invoke: Invoke, tmp_path: Path, toy: Path) -> None:
    path = tmp_path / "strange.gguf"
    path.write_bytes(toy.read_bytes().replace(b"llama", b"lhama"))
    assert one_error(invoke, "run", path, "hello")[0] == 5


def test_too_little_memory(invoke: Invoke, boundless_toy: Path) -> None:
    exit_code, sentence = one_error(invoke, "run", boundless_toy, "hello", "--ctx-size", 2**30)
    assert exit_code == 6
    assert "--ctx-size" in sentence


def test_a_prompt_longer_than_the_context(invoke: Invoke, toy: Path) -> None:
    assert one_error(invoke, "run", toy, "-", stdin=b"the river " * 500)[0] == 7


def test_no_network(invoke: Invoke) -> None:
    assert one_error(invoke, "run", "hf:somebody/something", "hello", "--offline")[0] == 9


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--temperature", "-1"),
        ("--temperature", "nan"),
        ("--top-p", "1.5"),
        ("--seed", "-3"),
        ("--max-tokens", "0"),
        ("--threads", "0"),
        ("--ctx-size", "3"),
    ],
)
def test_a_value_out_of_range_is_named(invoke: Invoke, toy: Path, option: str, value: str) -> None:
    exit_code, sentence = one_error(invoke, "run", toy, "hello", option, value)
    assert exit_code == 13
    assert value in sentence


@pytest.mark.parametrize("option", ["--predict", "--prompt-file", "--template"])
def test_a_file_that_is_not_there(invoke: Invoke, toy: Path, tmp_path: Path, option: str) -> None:
    prompt = [] if option == "--prompt-file" else ["hello"]
    exit_code, sentence = one_error(invoke, "run", toy, *prompt, option, tmp_path / "none.txt")
    assert exit_code == 13
    assert str(tmp_path / "none.txt") in sentence


def test_input_that_is_not_utf8(invoke: Invoke, toy: Path) -> None:
    exit_code, sentence = one_error(invoke, "run", toy, "-", stdin=b"caf\xe9")
    assert exit_code == 13
    assert "byte 3" in sentence


def test_a_broken_template(invoke: Invoke, toy: Path, tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text("{% for message in messages %}")
    assert one_error(invoke, "run", toy, "hello", "--template", template)[0] == 13


# -- usage ------------------------------------------------------------------------------------------------------


def test_a_mistyped_option_gets_a_suggestion(invoke: Invoke) -> None:
    result = invoke("run", "hello", "--temprature", "1")
    assert result.exit_code == 2
    assert "--temperature" in result.stderr


def test_a_mistyped_command_gets_a_suggestion(invoke: Invoke) -> None:
    result = invoke("chatt")
    assert result.exit_code == 2
    assert "'chat'" in result.stderr


def test_version(invoke: Invoke) -> None:
    assert invoke("--version").stdout == f"edgespec, version {__version__}\n"


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_every_command_explains_itself(invoke: Invoke, command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert command in invoke("--help").stdout


def test_help_loads_nothing_heavy() -> None:
    heavy = {"numpy", "llama_cpp", "jinja2", "prompt_toolkit", "edgespec.engine"}
    program = f"import sys, edgespec.cli.main; print(*{heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# -- as a process -----------------------------------------------------------------------------------------------


def test_a_reader_that_leaves_ends_the_answer(toy: Path) -> None:
    program = "from edgespec.cli.main import main; main()"
    command = [sys.executable, "-c", program, "run", str(toy), "hello", "--ctx-size", "4096", "--max-tokens", "4000"]
    command += ["--draft", "off"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


# -- the configuration file and the environment -----------------------------------------------------------------


def test_a_broken_configuration(invoke: Invoke, toy: Path, config: Path) -> None:
    config.write_text("[run\n")
    exit_code, sentence = one_error(invoke, "run", toy, "hello")
    assert exit_code == 13
    assert str(config) in sentence


def test_the_environment_sets_an_option(invoke: Invoke, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_RUN_MAX_TOKENS", "0")
    assert one_error(invoke, "run", toy, "hello")[1].startswith("Error: --max-tokens 0")
    monkeypatch.setenv("EDGESPEC_RUN_MAX_TOKENS", "3")
    monkeypatch.setenv("EDGESPEC_MODEL", str(toy))
    assert '"completion_tokens": 3' in invoke("run", "hello", "--json").stdout


def test_errors_have_three_parts() -> None:
    assert str(BadInput("x", "y", "z")) == "x: y; z."


def test_the_package_itself_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "edgespec", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("edgespec, version ")
