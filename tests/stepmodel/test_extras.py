from __future__ import annotations

import json
import sys

import pytest

from edgespec.errors import MissingExtra
from edgespec.stepmodel.extras import extra


def test_installed_package_is_imported() -> None:
    assert extra("json", "read") is json


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "json", None)
    with pytest.raises(MissingExtra) as caught:
        extra("json", "read the file")
    assert str(caught.value) == (
        "cannot read the file: the package 'json' is not installed; run: pip install gguf onnx onnxruntime."
    )
