"""The packages that only making a step model needs, imported when they are used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from edgespec.errors import MissingExtra


def extra(package: str, what: str) -> ModuleType:
    """The module `package`. Raises MissingExtra, saying that one cannot do `what`, when it is not installed."""
    try:
        return import_module(package)
    except ImportError as error:
        why = f"the package '{package}' is not installed"
        raise MissingExtra(f"cannot {what}", why, "run: pip install gguf onnx onnxruntime") from error
