"""What `import edgespec` promises to programs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import edgespec
from edgespec.engine import Conversation, Engine
from edgespec.errors import EdgeSpecError
from edgespec.events import Piece

HEAVY = ("llama_cpp", "numpy", "jinja2", "click", "rich", "prompt_toolkit")


def loaded_by(statement: str) -> set[str]:
    """Of the heavy packages, those that a fresh interpreter has after the statement."""
    program = f"import sys\n{statement}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_names_that_programs_use() -> None:
    promised = {
        "Answer", "AsyncAnswer", "CancelToken", "Completion", "Conversation", "Depth", "DraftChoice", "EdgeSpecError",
        "Engine", "EngineOptions", "Extras", "Finish", "GenerateOptions", "Grammar", "Message", "Notice", "Piece",
        "Progress", "RoundReport", "RoundTally", "SamplingSettings", "Stage", "Tallied", "Timings", "TokenScore",
        "Tuning", "Usage", "run_child", "tune_model",
    }  # fmt: skip
    assert set(edgespec.__all__) == promised
    assert all(isinstance(getattr(edgespec, name), type) for name in promised - {"run_child", "tune_model"})
    assert callable(edgespec.tune_model)
    assert callable(edgespec.run_child)
    assert (edgespec.Engine, edgespec.Conversation) == (Engine, Conversation)
    assert (edgespec.Piece, edgespec.EdgeSpecError) == (Piece, EdgeSpecError)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'edgespec' has no attribute 'Enigne'"):
        edgespec.Enigne  # noqa: B018


def test_the_version_is_the_packages() -> None:
    assert edgespec.__version__ == version("edgespec")


def test_importing_it_costs_nothing() -> None:
    assert loaded_by("import edgespec") == set()


def test_the_library_is_loaded_with_the_first_model_only() -> None:
    assert "llama_cpp" not in loaded_by("from edgespec import *")
