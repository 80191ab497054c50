"""Where other programs keep models, on each platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.library.places import search_places, usual_places

HOME = Path("/home/me")


def test_defaults_on_linux() -> None:
    places = search_places({}, HOME, "linux")
    assert places.hubs == (HOME / ".cache/huggingface/hub",)
    assert places.flat == (HOME / ".cache/llama.cpp",)
    assert places.ollama == (HOME / ".ollama/models", Path("/usr/share/ollama/.ollama/models"))
    assert places.lmstudio == (HOME / ".lmstudio/models", HOME / ".cache/lm-studio/models")


def test_defaults_on_macos_and_windows() -> None:
    assert search_places({}, HOME, "darwin").flat == (HOME / "Library/Caches/llama.cpp",)
    assert search_places({}, HOME, "darwin").ollama == (HOME / ".ollama/models",)
    assert search_places({}, HOME, "win32").flat == (HOME / "AppData/Local/llama.cpp",)
    assert search_places({"LOCALAPPDATA": "/local"}, HOME, "win32").flat == (Path("/local/llama.cpp"),)
    assert search_places({}, HOME, "win32").ollama == (HOME / ".ollama/models",)


@pytest.mark.parametrize(
    ("environ", "hub"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HUGGINGFACE_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/hub"),
        ({"HF_HOME": "~/hf"}, "/home/me/hf/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"HF_HUB_CACHE": ""}, "/home/me/.cache/huggingface/hub"),
    ],
)
def test_the_hub_cache_follows_its_variables(environ: dict[str, str], hub: str) -> None:
    assert search_places(environ, HOME, "linux").hubs == (Path(hub),)


def test_llama_cache_may_be_either_kind_of_cache() -> None:
    places = search_places({"LLAMA_CACHE": "/l"}, HOME, "linux")
    assert Path("/l") in places.hubs
    assert places.flat[0] == Path("/l")


def test_ollama_models() -> None:
    assert search_places({"OLLAMA_MODELS": "/o"}, HOME, "win32").ollama == (Path("/o"),)


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", "/somewhere")
    assert usual_places().hubs[0] == Path("/somewhere")
