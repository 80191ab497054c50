"""Folders of other programs, as those programs lay them out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from edgespec.library.places import Places

MODEL_LAYER = "application/vnd.ollama.image.model"


def places_in(root: Path) -> Places:
    return Places((root / "hub",), (root / "flat",), (root / "ollama",), (root / "lmstudio",))


def put_hub(root: Path, repo: str, file: str, content: bytes, revision: str = "abc", is_main: bool = True) -> Path:
    """A cached file: a blob, and a link to it in a snapshot, as on systems that have links."""
    folder = root / "hub" / f"models--{repo.replace('/', '--')}"
    blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
    link = folder / "snapshots" / revision / file
    for path in (blob, link):
        path.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    link.symlink_to(blob)
    if is_main:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / "main").write_text(revision)
    return link


def put_ollama(root: Path, name: str, content: bytes, file_type: str = "Q4_0") -> Path:
    """`name` is registry/namespace/model/tag. Returns the blob of the model."""
    ollama = root / "ollama"
    model = _blob(ollama, content)
    config = _blob(ollama, json.dumps({"model_format": "gguf", "file_type": file_type}).encode())
    layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": digest(b"licence")}]
    layers.append({"mediaType": MODEL_LAYER, "digest": digest(content)})
    manifest = ollama / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"config": {"digest": "sha256:" + config.name[7:]}, "layers": layers}))
    return model


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _blob(ollama: Path, content: bytes) -> Path:
    path = ollama / "blobs" / digest(content).replace(":", "-")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
