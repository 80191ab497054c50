"""The commands about models on disk: `pull`, `models`, `show`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgespec.cli.downloads import ensure_model
from edgespec.errors import ModelNotFound
from edgespec.library.card import HubSource, ModelCard, Source
from edgespec.library.foreign import foreign_models
from edgespec.library.header import GgufHeader, read_header
from edgespec.library.repository import RepositoryModel
from edgespec.library.resolve import (
    Library,
    find_card,
    installed_path,
    open_library,
    require_default,
    resolve_other,
)
from edgespec.library.units import readable_bytes, readable_count

# What a table may take where nobody looks at a terminal, so that paths in a pipe stay whole.
_PIPE_COLUMNS = 200

offline_option = click.option(
    "--offline", is_flag=True, envvar="EDGESPEC_OFFLINE", help="Use no network at all; also EDGESPEC_OFFLINE=1."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@click.command()
@click.argument("model")
@click.option("--accept-licence", is_flag=True, help="Accept the model's licence, which you have read.")
@offline_option
def pull(model: str, accept_licence: bool, offline: bool) -> None:
    """Download MODEL, and print where it is.

    MODEL is a name from 'edgespec models', or hf:user/repo[:quant].
    """
    found = ensure_model(model, offline=offline, console=Console(stderr=True), accept_licence=accept_licence)
    click.echo(str(found.path))


@click.command()
@json_option
def models(as_json: bool) -> None:
    """List the models edgespec knows, and those that other programs have put on this machine."""
    rows = _rows(open_library())
    if as_json:
        click.echo(json.dumps([_row_as_json(row) for row in rows], indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("MODEL", "SIZE", "QUANT", "WHERE", "INSTALLED"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "SIZE" else "left")
    for row in rows:
        installed = "yes" if row.path else "no"
        table.add_row(Text(_label(row)), readable_bytes(row.size_bytes), row.quantisation, row.where, installed)
    _stdout().print(table)


@click.command()
@click.argument("model", required=False)
@json_option
def show(model: str | None, as_json: bool) -> None:
    """Show what is known of MODEL: its card, its licence, and what its GGUF file says of itself."""
    card, path = _look_up(model, open_library())
    header = read_header(path) if path is not None else None
    if as_json:
        described = {"card": _card_as_json(card), "path": _path_as_json(path), "header": _header_as_json(header)}
        click.echo(json.dumps(described, indent=2))
        return
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    for name, fact in [*_card_facts(card), *_path_facts(card, path), *_header_facts(header)]:
        facts.add_row(name, Text(fact))
    _stdout().print(facts)


def _look_up(model: str | None, library: Library) -> tuple[ModelCard | None, Path | None]:
    """Card and file, either of which may be missing; nothing is downloaded."""
    card = find_card(model, library)
    if model is None or card is not None:
        card = card or require_default(library)
        return card, installed_path(card, library)
    return None, resolve_other(model, library, _not_here).path


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    size_bytes: int
    quantisation: str
    where: str
    path: Path | None
    is_default: bool
    description: str
    licence: str


def _rows(library: Library) -> list[_Row]:
    cards = [_card_row(card, installed_path(card, library)) for card in library.cards]
    foreign = [
        _Row(model.name, model.size_bytes, model.quantisation, model.source, model.path, False, "", "")
        for model in foreign_models(library.places)
    ]
    return cards + foreign


def _card_row(card: ModelCard, path: Path | None) -> _Row:
    where = "edgespec" if path else _source(card.sources[0]) if card.sources else ""
    return _Row(
        card.id,
        card.size_bytes,
        card.quantisation,
        where,
        path,
        card.is_default,
        card.description,
        card.licence.name,
    )


def _label(row: _Row) -> str:
    return f"{row.name} (default)" if row.is_default else row.name


def _source(source: Source) -> str:
    if isinstance(source, HubSource):
        return f"hf:{source.repo}"
    return f"package {source.parts[0].package}"


def _card_facts(card: ModelCard | None) -> list[tuple[str, str]]:
    if card is None:
        return []
    notice = [("notice", card.licence.notice.strip())] if card.licence.must_accept else []
    return [
        ("model", f"{card.id} - {card.name}"),
        ("description", card.description),
        ("kind", card.kind.value),
        ("size", f"{readable_bytes(card.size_bytes)}, {readable_count(card.n_parameters)} parameters"),
        ("licence", f"{card.licence.name}, {card.licence.url}"),
        *notice,
        ("sources", ", ".join(_source(source) for source in card.sources)),
        ("sha256", card.sha256),
    ]


def _path_facts(card: ModelCard | None, path: Path | None) -> list[tuple[str, str]]:
    if path is None:
        return [("file", f"not on this machine yet; 'edgespec pull {card.id if card else ''}' fetches it")]
    return [("file", str(path))]


def _header_facts(header: GgufHeader | None) -> list[tuple[str, str]]:
    if header is None:
        return []
    window = f", sliding window of {header.sliding_window}" if header.sliding_window else ""
    kv_heads = "/".join(str(count) for count in sorted(set(header.head_counts_kv)))
    return [
        ("name in file", header.name),
        ("architecture", f"{header.architecture}, {header.block_count} blocks of {header.embedding_length}"),
        ("attention", f"{header.head_count} heads, {kv_heads} for keys and values{window}"),
        ("quantisation", f"{header.quantisation}, {readable_bytes(header.tensor_bytes)} of weights"),
        ("parameters", readable_count(header.n_parameters)),
        ("context", f"{header.context_length} tokens"),
        ("vocabulary", f"{header.n_vocab} tokens"),
        ("chat template", "in the file" if header.has_chat_template else "none in the file"),
        ("files", str(len(header.parts))),
    ]


def _row_as_json(row: _Row) -> dict[str, object]:
    return {
        "name": row.name,
        "default": row.is_default,
        "installed": row.path is not None,
        "path": _path_as_json(row.path),
        "where": row.where,
        "size_bytes": row.size_bytes,
        "quantisation": row.quantisation,
        "description": row.description,
        "licence": row.licence,
    }


def _card_as_json(card: ModelCard | None) -> dict[str, object] | None:
    if card is None:
        return None
    return {
        "id": card.id,
        "name": card.name,
        "description": card.description,
        "kind": card.kind.value,
        "default": card.is_default,
        "size_bytes": card.size_bytes,
        "sha256": card.sha256,
        "licence": card.licence.name,
        "licence_url": card.licence.url,
        "licence_must_accept": card.licence.must_accept,
        "end_tokens": card.end_tokens,
        "stop_strings": card.stop_strings,
        "sources": [_source(source) for source in card.sources],
    }


def _header_as_json(header: GgufHeader | None) -> dict[str, object] | None:
    if header is None:
        return None
    return {
        "name": header.name,
        "architecture": header.architecture,
        "quantisation": header.quantisation,
        "parameters": header.n_parameters,
        "context_length": header.context_length,
        "block_count": header.block_count,
        "embedding_length": header.embedding_length,
        "feed_forward_length": header.feed_forward_length,
        "head_count": header.head_count,
        "head_counts_kv": header.head_counts_kv,
        "key_length": header.key_length,
        "value_length": header.value_length,
        "sliding_window": header.sliding_window,
        "n_vocab": header.n_vocab,
        "has_chat_template": header.has_chat_template,
        "tensor_bytes": header.tensor_bytes,
        "files": [str(part) for part in header.parts],
    }


def _path_as_json(path: Path | None) -> str | None:
    return str(path) if path is not None else None


def _not_here(model: RepositoryModel) -> Path:
    raise ModelNotFound(f"model {model}", "it is not on this machine yet", f"'edgespec pull {model}' fetches it")


def _stdout() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_PIPE_COLUMNS)
