"""Local language models that answer faster and say exactly the same: speculative decoding over llama.cpp.

    from edgespec import Engine
    print(Engine.open().conversation().say("Hello").text)

Names are imported when they are first used, so `import edgespec` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgespec.engine import Answer as Answer
    from edgespec.engine import AsyncAnswer as AsyncAnswer
    from edgespec.engine import CancelToken as CancelToken
    from edgespec.engine import Conversation as Conversation
    from edgespec.engine import DraftChoice as DraftChoice
    from edgespec.engine import Engine as Engine
    from edgespec.engine import EngineOptions as EngineOptions
    from edgespec.engine import Extras as Extras
    from edgespec.engine import GenerateOptions as GenerateOptions
    from edgespec.engine import Grammar as Grammar
    from edgespec.engine import Progress as Progress
    from edgespec.engine import Stage as Stage
    from edgespec.engine import tune_model as tune_model
    from edgespec.errors import EdgeSpecError as EdgeSpecError
    from edgespec.events import Completion as Completion
    from edgespec.events import Finish as Finish
    from edgespec.events import Notice as Notice
    from edgespec.events import Piece as Piece
    from edgespec.events import RoundReport as RoundReport
    from edgespec.events import Timings as Timings
    from edgespec.events import TokenScore as TokenScore
    from edgespec.events import Usage as Usage
    from edgespec.processes import run_child as run_child
    from edgespec.spec.law import SamplingSettings as SamplingSettings
    from edgespec.tally import Depth as Depth
    from edgespec.tally import RoundTally as RoundTally
    from edgespec.tally import Tallied as Tallied
    from edgespec.text.template import Message as Message
    from edgespec.tune.tuning import Tuning as Tuning

__version__ = "0.1.0"

_HOMES = {
    "edgespec.engine": (
        "Answer", "AsyncAnswer", "CancelToken", "Conversation", "DraftChoice", "Engine", "EngineOptions", "Extras",
        "GenerateOptions", "Grammar", "Progress", "Stage", "tune_model",
    ),
    "edgespec.errors": ("EdgeSpecError",),
    "edgespec.events": (
        "Completion", "Finish", "Notice", "Piece", "RoundReport", "Timings", "TokenScore", "Usage",
    ),
    "edgespec.processes": ("run_child",),
    "edgespec.spec.law": ("SamplingSettings",),
    "edgespec.tally": ("Depth", "RoundTally", "Tallied"),
    "edgespec.text.template": ("Message",),
    "edgespec.tune.tuning": ("Tuning",),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'edgespec' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
