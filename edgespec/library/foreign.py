"""Models that other programs have put on this machine, usable where they lie.

Reads folders that edgespec does not own and does not trust: what cannot be read, points nowhere or is no GGUF is
passed over, links to folders are not followed, and nothing is ever written.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgespec.library.places import Places
from edgespec.library.quant import quantisation_in_name
from edgespec.library.sniff import GGUF_MAGIC
from edgespec.library.split import is_model_name, part_names

_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_OLLAMA_MODEL = "application/vnd.ollama.image.model"

# Manifests and configurations are a few hundred bytes; a larger file is something else.
_MAX_JSON_BYTES = 1 << 20

# Repositories put quantisations into one folder level; deeper trees are not models.
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class ForeignModel:
    """`name` is what MODEL accepts. `path` is the first part of a split model, `size_bytes` the size of all parts."""

    name: str
    path: Path
    size_bytes: int
    quantisation: str
    source: str


def foreign_models(places: Places) -> tuple[ForeignModel, ...]:
    """Everything usable in those places, by name. The first of two models of one name wins."""
    found = [
        *(model for root in places.hubs for model in _hub_models(root)),
        *(model for root in places.flat for model in _flat_models(root)),
        *(model for root in places.ollama for model in _ollama_models(root)),
        *(model for root in places.lmstudio for model in _lmstudio_models(root)),
    ]
    by_name = {model.name: model for model in reversed(found)}
    return tuple(by_name[name] for name in sorted(by_name))


def hub_files(places: Places, repo: str) -> dict[str, Path]:
    """The cached GGUF models of one Hugging Face repository, by their names in it."""
    folder = "models--" + repo.replace("/", "--")
    files: dict[str, Path] = {}
    for root in places.hubs:
        files = {**_repository_files(root / folder), **files}
    return files


def _hub_models(root: Path) -> Iterator[ForeignModel]:
    for folder in _folders(root):
        kind, _, name = folder.name.partition("--")
        user, _, repo = name.partition("--")
        if kind != "models" or not repo:
            continue
        files = _repository_files(folder)
        quants = [quantisation_in_name(name) for name in files]
        for (file, path), quant in zip(files.items(), quants, strict=True):
            choice = quant if quant and quants.count(quant) == 1 else file
            yield from _usable(f"hf:{user}/{repo}:{choice}", path, quant, "Hugging Face")


def _repository_files(folder: Path) -> dict[str, Path]:
    """By name in the repository; where revisions differ, the one that `main` means wins."""
    main = _small_text(folder / "refs" / "main").strip()
    snapshots = sorted(_folders(folder / "snapshots"), key=lambda snapshot: snapshot.name != main)
    files: dict[str, Path] = {}
    for snapshot in snapshots:
        for path in _gguf_files(snapshot, _MAX_DEPTH):
            files.setdefault(path.relative_to(snapshot).as_posix(), path)
    return files


def _flat_models(root: Path) -> Iterator[ForeignModel]:
    for path in _gguf_files(root, 1):
        yield from _usable(f"llama.cpp:{path.stem}", path, quantisation_in_name(path.name), "llama.cpp")


def _lmstudio_models(root: Path) -> Iterator[ForeignModel]:
    for path in _gguf_files(root, _MAX_DEPTH):
        name = path.relative_to(root).with_suffix("").as_posix()
        yield from _usable(f"lmstudio:{name}", path, quantisation_in_name(path.name), "LM Studio")


def _ollama_models(root: Path) -> Iterator[ForeignModel]:
    """manifests/<registry>/<namespace>/<model>/<tag> is a list of layers, one of which is the GGUF."""
    for registry in _folders(root / "manifests"):
        for namespace in _folders(registry):
            for model in _folders(namespace):
                for tag in _files(model):
                    manifest = _json_table(tag)
                    blob = _blob(root, _layer_digest(manifest))
                    if blob is not None:
                        name = _ollama_name(registry.name, namespace.name, model.name, tag.name)
                        yield from _usable(name, blob, _ollama_quantisation(root, manifest), "Ollama")


def _ollama_name(registry: str, namespace: str, model: str, tag: str) -> str:
    """As Ollama itself spells it: its own registry and the namespace 'library' stay unsaid."""
    parts = [] if registry.startswith("registry.") else [registry]
    if parts or namespace != "library":
        parts.append(namespace)
    return f"ollama:{'/'.join([*parts, model])}:{tag}"


def _layer_digest(manifest: dict[str, object]) -> object:
    layers = manifest.get("layers")
    for layer in layers if isinstance(layers, list) else []:
        if isinstance(layer, dict) and layer.get("mediaType") == _OLLAMA_MODEL:
            return layer.get("digest")
    return None


def _ollama_quantisation(root: Path, manifest: dict[str, object]) -> str:
    config = manifest.get("config")
    blob = _blob(root, config.get("digest") if isinstance(config, dict) else None)
    quantisation = _json_table(blob).get("file_type") if blob else None
    return quantisation if isinstance(quantisation, str) else ""


def _blob(root: Path, digest: object) -> Path | None:
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    return root / "blobs" / f"sha256-{match[1]}" if match else None


def _usable(name: str, path: Path, quantisation: str, source: str) -> Iterator[ForeignModel]:
    """One model, or none when its file is missing, cut off or no GGUF."""
    try:
        n_bytes = sum(_regular_bytes(path.with_name(part)) for part in part_names(path.name))
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError:
        return
    # A name that a terminal could take for commands, or that cannot be printed at all, could not be typed either.
    if magic == GGUF_MAGIC and name.isprintable():
        yield ForeignModel(name, path, n_bytes, quantisation, source)


def _regular_bytes(path: Path) -> int:
    """Size of a file. Raises OSError for anything else: opening a pipe would wait for ever."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(path)
    return status.st_size


def _gguf_files(folder: Path, depth: int) -> Iterator[Path]:
    yield from (path for path in _files(folder) if is_model_name(path.name))
    for inner in _folders(folder) if depth > 1 else ():
        yield from _gguf_files(inner, depth - 1)


def _files(folder: Path) -> Iterable[Path]:
    """Files and links to files, by name. A link's goal is looked at later, when it is opened."""
    return [Path(entry.path) for entry in _entries(folder) if not _is_folder(entry)]


def _folders(folder: Path) -> Iterable[Path]:
    return [Path(entry.path) for entry in _entries(folder) if _is_folder(entry)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _json_table(path: Path) -> dict[str, object]:
    try:
        table = json.loads(_small_text(path))
    except (ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _small_text(path: Path) -> str:
    try:
        if _regular_bytes(path) > _MAX_JSON_BYTES:
            return ""
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
