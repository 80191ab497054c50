"""Cards for tests, whole and with one key changed."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from edgespec.library.card import Licence, ModelCard, PackageFile, PackageSource, parse_card

CARD_TEXT = """
id = "toy"
name = "Toy"
description = "A toy."
kind = "chat"
architecture = "llama"
quantisation = "Q8_0"
parameters = 704
context_length = 512
file = "toy.gguf"
size_bytes = 1000
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
licence = "Apache-2.0"
licence_url = "https://www.apache.org/licenses/LICENSE-2.0"

[[sources]]
kind = "package"
parts = [{ package = "toy-model", version = "1.0", member = "toy_model/toy.gguf", wheel_bytes = 10 }]

[[sources]]
kind = "hub"
repo = "user/toy-GGUF"
file = "toy.gguf"
"""


def toy_card(content: bytes, *parts: PackageFile) -> ModelCard:
    """A card whose model is `content`, with the package `parts` as its one source."""
    card = parse_card(CARD_TEXT, "toy.toml")
    sources = (PackageSource(parts),) if parts else card.sources
    return replace(card, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest(), sources=sources)


def with_licence(card: ModelCard, full_text: PackageFile | None = None) -> ModelCard:
    licence = Licence("Toy Terms", "https://example.org/terms", True, "Be kind to the toy.", full_text)
    return replace(card, licence=licence)
