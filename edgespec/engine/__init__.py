"""The engine: a model opened once, answers made by the one thread that owns it."""

from edgespec.choice import DraftChoice
from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.conversation import Conversation
from edgespec.engine.core import Engine, Extras
from edgespec.engine.measuring import tune_model
from edgespec.engine.options import EngineOptions, GenerateOptions
from edgespec.engine.progress import Progress, Stage
from edgespec.engine.streaming import AsyncAnswer
from edgespec.text.grammar import Grammar

__all__ = [
    "Answer",
    "AsyncAnswer",
    "CancelToken",
    "Conversation",
    "DraftChoice",
    "Engine",
    "EngineOptions",
    "Extras",
    "GenerateOptions",
    "Grammar",
    "Progress",
    "Stage",
    "tune_model",
]
