"""The models that can be chosen: cards, and files of other programs on this machine. Looks at the disk only."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.library.card import ModelCard
from edgespec.library.foreign import foreign_models
from edgespec.library.resolve import Library, installed_path, open_library
from edgespec.library.units import readable_bytes


@dataclass(frozen=True, slots=True)
class Offer:
    """model: what opens it. licence_notice: to be accepted before it is downloaded, "" if nothing is."""

    model: str
    title: str
    size: str
    where: str
    is_here: bool
    details: str
    licence_notice: str = ""
    licence_url: str = ""


def offers() -> tuple[Offer, ...]:
    """Cards first. Raises BadInput for a card that cannot be read."""
    library = open_library()
    cards = [_of_card(card, library) for card in library.cards]
    others = [
        Offer(one.name, one.name, readable_bytes(one.size_bytes), one.source, True, one.quantisation)
        for one in foreign_models(library.places)
    ]
    return (*cards, *others)


def _of_card(card: ModelCard, library: Library) -> Offer:
    is_here = installed_path(card, library) is not None
    asks = card.licence.must_accept and not is_here
    return Offer(
        card.id,
        card.name,
        readable_bytes(card.size_bytes),
        "on this machine" if is_here else "to be downloaded",
        is_here,
        f"{card.description} Licence: {card.licence.name}.",
        card.licence.notice.strip() if asks else "",
        card.licence.url if asks else "",
    )
