"""The drafts that may run beside a target: the one asked for by name, then those that a card knows, best first.

A known one counts where it is on disk and was measured with this target here. Which of them the memory has room for is
`library.drafts`' business. Opens no network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgespec.backend.probe import model_fingerprint
from edgespec.engine.pair.devices import CPU, on_device
from edgespec.engine.pair.facts import Host, PairFacts, known_facts
from edgespec.engine.pair.second import Notify
from edgespec.engine.pair.weighing import gain, weighed
from edgespec.errors import EdgeSpecError
from edgespec.events import Notice
from edgespec.library.card import ModelCard, draft_cards, load_cards
from edgespec.library.drafts import DRAFT_ROWS, DraftNeed, gguf_draft
from edgespec.library.header import read_header
from edgespec.library.memory import CacheShape
from edgespec.library.resolve import installed_path, open_library
from edgespec.spec.placement import Choice


@dataclass(frozen=True, slots=True)
class KnownDraft:
    """A card's draft on disk that was measured with this target on this device. choice: what that predicts, None where
    the target was not measured.
    """

    name: str
    path: Path
    need: DraftNeed
    facts: PairFacts
    choice: Choice | None
    device: str = CPU

    @property
    def gain(self) -> float:
        """How many times as fast as plain decoding; 0 where nothing was weighed."""
        return gain(self.choice)


def known_drafts(card: ModelCard | None, host: Host, notify: Notify) -> list[KnownDraft]:
    """Those of the card that were measured, the largest gain first; of equals the card's order. One that cannot be read
    is a notice.
    """
    found = list(_known(card, host, notify)) if card is not None else []
    return sorted(found, key=lambda one: -one.gain)


def drafts_on_disk(card: ModelCard) -> Iterator[tuple[str, Path]]:
    """Names and files of the card's drafts, measured or not, the card's best first."""
    library = open_library()
    for one in draft_cards(card, load_cards()):
        path = installed_path(one, library)
        if path is not None:
            yield one.id, path


def _known(card: ModelCard, host: Host, notify: Notify) -> Iterator[KnownDraft]:
    on_disk = list(drafts_on_disk(card))
    devices = host.devices.for_gguf() if on_disk else ()
    for file, path in on_disk:
        for device in devices:
            facts = known_facts(on_device(model_fingerprint(path), device), host)
            if facts is None:
                continue
            name = on_device(file, device)
            try:
                need = need_of(path, name, host.target.settings.n_ctx)
            except EdgeSpecError as error:
                notify(unusable(name, error))
                continue
            yield KnownDraft(name, path, need, facts, weighed(facts, host.tuned), device)


def need_of(path: Path, name: str, n_ctx: int) -> DraftNeed:
    """Raises the file's errors."""
    header = read_header(path)
    return gguf_draft(header, CacheShape(DRAFT_ROWS), min(n_ctx, header.context_length or n_ctx), name)


def unusable(name: str, error: EdgeSpecError) -> Notice:
    return Notice("draft-unusable", f"{name} cannot draft: {error}")
