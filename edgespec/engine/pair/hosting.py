"""An opened model as the host of a draft: what its answers end with, and what it is tried on."""

from __future__ import annotations

from edgespec.engine.opening import Opened
from edgespec.engine.pair.devices import AUTO, Devices
from edgespec.engine.pair.everyday import Everyday, everyday
from edgespec.engine.pair.facts import Host
from edgespec.library.card import ModelCard
from edgespec.text.vocab import Vocabulary


def host_of(opened: Opened, card: ModelCard | None = None, draft_device: str = AUTO) -> Host:
    """draft_device: as `EngineOptions` has it."""

    def asked() -> Everyday:
        return everyday(opened.vocab, opened.header.chat_template, card, end_tokens(opened.vocab, card))

    return Host(opened.header, opened.target, opened.tuned, opened.library, asked, Devices(draft_device))


def end_tokens(vocab: Vocabulary, card: ModelCard | None) -> frozenset[int]:
    """The tokens that end an answer: the vocabulary's, and those that the card spells."""
    spelled = card.end_tokens if card else ()
    return vocab.end_tokens | {vocab.special_tokens[text] for text in spelled if text in vocab.special_tokens}
