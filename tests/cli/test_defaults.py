from __future__ import annotations

from pathlib import Path

import click
import pytest

from edgespec.cli.defaults import checked_defaults
from edgespec.cli.main import cli
from edgespec.errors import BadInput


def test_no_file_means_no_defaults(config: Path) -> None:
    assert not config.exists()
    assert checked_defaults(cli) == {}


def test_values_are_taken_by_command(config: Path) -> None:
    config.write_text('[chat]\ntemperature = 0.2\nmodel = "m"\nexact = true\nstop = "x"\n[run]\nseed = 4\n')
    assert checked_defaults(cli) == {
        "chat": {"temperature": 0.2, "model": "m", "exact": True, "stop": ["x"]},
        "run": {"seed": 4},
    }


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("[chatt]\n", r"\[chatt\]", "chat"),
        ("[zzz]\n", r"\[zzz\]", "--help"),
        ("[chat]\ntemprature = 1\n", "'temprature' in", "temperature"),
        ("[chat]\nseed = 'x'\n", "seed = x", "correct"),
        ("[run]\ndraft = 'lokup'\n", "draft = lokup", "correct"),
        ("[run]\nwords = 'x'\n", "'words' in", "--help"),
        ("chat = 3\n", r"\[chat\]", "table"),
        ("[chat]\nstop = ['a']\n", r"\[chat\]", "plain values"),
    ],
)
def test_what_cannot_be_used_is_named(config: Path, text: str, what: str, remedy: str) -> None:
    config.write_text(text)
    with pytest.raises(BadInput, match=what) as caught:
        checked_defaults(cli)
    assert remedy in str(caught.value)
    assert str(config) in str(caught.value)


def test_it_knows_no_command_by_name(config: Path) -> None:
    config.write_text("[sing]\nloud = true\n")

    @click.command()
    @click.option("--loud", is_flag=True)
    def sing(loud: bool) -> None:
        raise AssertionError(loud)

    assert checked_defaults(click.Group("music", {"sing": sing})) == {"sing": {"loud": True}}
