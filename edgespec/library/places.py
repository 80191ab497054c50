"""Where other programs keep their models, by their own environment variables and defaults. Looks at no disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """Folders that may or may not exist.

    hubs: Hugging Face hub caches. flat: llama.cpp's older cache, GGUF files side by side. ollama: folders with
    manifests/ and blobs/. lmstudio: folders with publisher/model/file.
    """

    hubs: tuple[Path, ...]
    flat: tuple[Path, ...]
    ollama: tuple[Path, ...]
    lmstudio: tuple[Path, ...]


def usual_places() -> Places:
    return search_places(os.environ, Path.home(), sys.platform)


def search_places(environ: Mapping[str, str], home: Path, platform: str) -> Places:
    """`platform` is spelled as in sys.platform."""
    llama_cache = _stated(environ, home, "LLAMA_CACHE")
    return Places(
        hubs=_unique(_hub_cache(environ, home), *llama_cache),
        flat=_unique(*llama_cache, _llama_cache(environ, home, platform)),
        ollama=_unique(
            *(_stated(environ, home, "OLLAMA_MODELS") or (home / ".ollama" / "models",)),
            # What the Linux service uses, whose home this is.
            *((Path("/usr/share/ollama/.ollama/models"),) if platform == "linux" else ()),
        ),
        lmstudio=_unique(home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"),
    )


def _hub_cache(environ: Mapping[str, str], home: Path) -> Path:
    stated = _stated(environ, home, "HF_HUB_CACHE") or _stated(environ, home, "HUGGINGFACE_HUB_CACHE")
    if stated:
        return stated[0]
    hf_home = _stated(environ, home, "HF_HOME")
    return (hf_home[0] if hf_home else _xdg_cache(environ, home) / "huggingface") / "hub"


def _llama_cache(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    if platform == "darwin":
        return home / "Library" / "Caches" / "llama.cpp"
    if platform == "win32":
        local = _stated(environ, home, "LOCALAPPDATA")
        return (local[0] if local else home / "AppData" / "Local") / "llama.cpp"
    return _xdg_cache(environ, home) / "llama.cpp"


def _xdg_cache(environ: Mapping[str, str], home: Path) -> Path:
    stated = _stated(environ, home, "XDG_CACHE_HOME")
    return stated[0] if stated else home / ".cache"


def _stated(environ: Mapping[str, str], home: Path, name: str) -> tuple[Path, ...]:
    """The variable's folder, or nothing when it is unset or empty. A leading ~ is the home."""
    value = environ.get(name, "")
    if not value:
        return ()
    return (home / value[2:] if value[:2] in ("~/", "~\\") else Path(value),)


def _unique(*folders: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(folders))
