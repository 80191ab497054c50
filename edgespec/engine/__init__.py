"""The engine: a model opened once, answers made by the one thread that owns it."""

from edgespec.choice import DraftChoice
from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.conversation import Conversation
from edgespec.engine.core import Engine, Extras
from edgespec.engine.options import EngineOptions, GenerateOptions
from edgespec.text.grammar import Grammar

__all__ = [
    "Answer",
    "CancelToken",
    "Conversation",
    "DraftChoice",
    "Engine",
    "EngineOptions",
    "Extras",
    "GenerateOptions",
    "Grammar",
]
