"""Why a measured policy does what it does, put together from its books.

Contract: may be asked from any thread while rounds go on, so it writes nothing, and reads nothing that it would have to
keep. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgespec.spec.books import Books
from edgespec.spec.policy import Decision, DrafterView, Explanation, Reason
from edgespec.spec.predict import break_even_table
from edgespec.spec.profile import Profile


def explanation(
    books: Books, last: Decision, rounds: Mapping[Reason, int], context: int, width_class: tuple[int, ...] = ()
) -> Explanation:
    """What holds at so many tokens of context; `width_class` is an exact request's."""
    costs, widths = books.costs, books.costs.table.widths
    widths = tuple(width for width in widths if not width_class or width in width_class) or (1,)
    seconds = costs.view(widths, context)
    return Explanation(
        last=last,
        rounds=dict(rounds),
        break_even=break_even_table(widths, seconds),
        drafters=tuple(_view(books, name, seconds[0]) for name in list(books.calls.costs)),
        load=costs.load,
        lost_seconds=books.ledger.lost_seconds,
        headroom_seconds=books.ledger.headroom(seconds[0]),
    )


def _view(books: Books, name: str, t1_seconds: float) -> DrafterView:
    profile = books.acceptance.profiles.get(name) or Profile()
    is_free = books.calls.seems_free(name, t1_seconds)
    seconds = books.calls.costs[name].view(1)
    return DrafterView(name, profile.n_steps, profile.acceptance, profile.trust, seconds, is_free)
