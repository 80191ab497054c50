"""What a process says about ONNX Runtime's providers, once, and what becomes of one that cannot say it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnxruntime
import pytest

from edgespec.backend.onnx import providers
from edgespec.backend.onnx.providers import installed_providers, providers_command
from edgespec.errors import EngineFailure, MissingExtra
from edgespec.records import Records


def says(text: str, code: int = 0) -> list[str]:
    return [sys.executable, "-c", f"import sys; print({text!r}); print('so it is', file=sys.stderr); sys.exit({code})"]


def test_the_process_says_what_the_library_has(tmp_path: Path) -> None:
    found = installed_providers(Records(tmp_path / "providers.json"))
    assert found == tuple(name.removesuffix("ExecutionProvider") for name in onnxruntime.get_available_providers())
    assert "CPU" in found


def test_it_is_asked_once_for_each_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records(tmp_path / "providers.json")
    assert installed_providers(records, lambda: says('["CPU"]')) == ("CPU",)
    assert installed_providers(records, lambda: says("nonsense")) == ("CPU",)
    monkeypatch.setattr(providers, "_build", lambda: "another")
    assert installed_providers(records, lambda: says('["CoreML", "CPU"]')) == ("CoreML", "CPU")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (says("nonsense"), "it answered nonsense"),
        (says('{"CPU": 1}'), "it answered nonsense"),
        (says("[1]"), "it answered nonsense"),
        (says("[]", code=3), "so it is"),
        (["/no/such/program"], "No such file"),
    ],
)
def test_a_process_that_cannot_say_it_is_an_error_and_forgotten(tmp_path: Path, command: list[str], why: str) -> None:
    records = Records(tmp_path / "providers.json")
    with pytest.raises(EngineFailure) as caught:
        installed_providers(records, lambda: command)
    assert why in caught.value.why
    assert installed_providers(records, lambda: says('["CPU"]')) == ("CPU",)


def test_without_the_library_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match="pip install onnxruntime"):
        installed_providers(Records(tmp_path / "providers.json"))


def test_a_damaged_record_is_made_anew(tmp_path: Path) -> None:
    records = Records(tmp_path / "providers.json")
    records.put(providers._build(), json.dumps({"not": "a list"}))
    assert "CPU" in installed_providers(records, providers_command)
