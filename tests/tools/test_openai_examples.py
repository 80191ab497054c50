"""Every example runs against a real `edgespec serve` over the toy model; the transcript is what they printed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from edgespec.errors import EngineFailure
from tools.openai_examples import EXAMPLES, body_of, chat, child, main, printed, shared, transcript


def test_all_of_them_run_and_are_written_down(toy: Path) -> None:
    with child(str(toy), 1) as client:
        written = transcript(client)
        said = printed(chat, client)
    sections = written.split("\n## ")
    assert [section.partition("\n")[0] for section in sections[1:]] == [example.__doc__ for example in EXAMPLES]
    assert "    print(" not in body_of(chat).splitlines()[-1]  # as a program of its own has it
    for example, section in zip(EXAMPLES, sections[1:], strict=True):
        code, _, output = section.partition("\nprints\n")
        assert body_of(example) in code
        assert output.strip().removeprefix("````text").removesuffix("````").strip()
    assert said.strip() in written
    for told in ("tool_calls get_weather", "BadRequestError 400 temperature", "Animal(kind=", "accepted_prediction"):
        assert told in written
    with pytest.raises(httpx.ConnectError):  # the server ended with its context
        httpx.get(str(client.base_url), trust_env=False)


def test_the_shown_sources_are_a_program() -> None:
    names: dict[str, object] = {}
    exec(compile(shared(), "shared", "exec"), names)
    assert {"client", "MODEL", "WEATHER", "CODE", "Animal"} <= names.keys()
    for example in EXAMPLES:
        compile(body_of(example), str(example.__doc__), "exec")


def test_a_server_that_does_not_begin_is_said(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="it ended with code 3"), child(str(tmp_path / "none.gguf"), 1):
        raise AssertionError
    result = CliRunner().invoke(main, ["--model", str(tmp_path / "none.gguf")])
    assert result.exit_code == EngineFailure.exit_code


def test_the_transcript_in_the_documentation_has_all_examples() -> None:
    written = (Path(__file__).resolve().parents[2] / "docs" / "openai.md").read_text("utf-8")
    assert shared() in written
    for example in EXAMPLES:
        assert f"## {example.__doc__}\n\n````python\n{body_of(example)}````\n" in written
