"""A step model spelled as one line of text, so that another process can open it: what it is, then its settings as JSON.

Knows which backends there are, and imports the one that is opened.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgespec.backend.settings import LlamaSettings
from edgespec.spec.step import StepModel

if TYPE_CHECKING:
    from edgespec.backend.onnx import OnnxSettings


def onnx_spec(path: Path, settings: OnnxSettings) -> str:
    """A step model's folder on ONNX Runtime."""
    return f"onnx:{json.dumps({'path': str(path.absolute()), **asdict(settings)})}"


def llama_spec(path: Path, settings: LlamaSettings, n_vocab: int, name: str) -> str:
    """A GGUF on llama.cpp. n_vocab, name: as of `LlamaStep`."""
    raw = {"path": str(path.absolute()), "settings": settings.to_json(), "n_vocab": n_vocab, "name": name}
    return f"llama:{json.dumps(raw)}"


def build(spec: str) -> StepModel:
    """What `onnx_spec` or `llama_spec` wrote, or `python:MODULE:FUNCTION:ARGUMENT` for what FUNCTION(ARGUMENT) returns.

    Raises what building raises, ValueError for another spec.
    """
    kind, _, rest = spec.partition(":")
    if kind == "onnx":
        return _onnx(rest)
    if kind == "llama":
        return _llama(rest)
    if kind == "python" and rest.count(":") >= 2:
        module, function, argument = rest.split(":", 2)
        make = cast(Callable[[str], StepModel], getattr(importlib.import_module(module), function))
        return make(argument)
    raise ValueError(f"no step model is called {spec!r}")


def _onnx(text: str) -> StepModel:
    from edgespec.backend.onnx import OnnxSettings, OnnxStep

    raw = json.loads(text)
    return OnnxStep.open(Path(raw.pop("path")), OnnxSettings(**raw))


def _llama(text: str) -> StepModel:
    from edgespec.backend.llama.step import open_step

    raw = json.loads(text)
    settings = LlamaSettings.from_json(raw["settings"])
    return open_step(Path(raw["path"]), settings, n_vocab=raw["n_vocab"], name=raw["name"])
