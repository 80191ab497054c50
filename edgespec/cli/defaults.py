"""The configuration file as defaults of the commands' options, checked key by key: nothing is silently ignored."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import click

from edgespec.config import Scalar, config_dir, load_config
from edgespec.errors import BadInput

Default = Scalar | list[Scalar]


def checked_defaults(group: click.Group) -> dict[str, dict[str, Default]]:
    """Command name -> option name -> value. Raises BadInput, which names what is wrong in the file."""
    return {name: _table(group, name, table) for name, table in load_config().items()}


def _table(group: click.Group, name: str, table: Mapping[str, Scalar]) -> dict[str, Default]:
    command = group.commands.get(name)
    if command is None:
        raise _unknown(f"[{name}]", "there is no such command", name, list(group.commands))
    options = {option.name: option for option in command.params if option.name and option.nargs == 1}
    checked: dict[str, Default] = {}
    for key, value in table.items():
        option = options.get(key)
        if option is None:
            raise _unknown(f"'{key}' in [{name}]", f"'edgespec {name}' has no such option", key, list(options))
        _check(option, f"'{key} = {value}' in [{name}]", value)
        checked[key] = [value] if option.multiple else value
    return checked


def _check(option: click.Parameter, what: str, value: Scalar) -> None:
    try:
        option.type.convert(value, option, None)
    except click.BadParameter as error:
        raise BadInput(f"{what} of {_path()}", error.message.rstrip("."), "correct or remove the line") from None


def _unknown(what: str, why: str, word: str, known: list[str]) -> BadInput:
    close = difflib.get_close_matches(word, known, n=1)
    remedy = f"perhaps you mean {close[0]}" if close else "see 'edgespec --help'"
    return BadInput(f"{what} of {_path()}", why, remedy)


def _path() -> str:
    return str(config_dir() / "config.toml")
