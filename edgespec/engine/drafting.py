"""Which drafters guess for a request, from what the caller chose."""

from __future__ import annotations

from collections.abc import Callable

from edgespec.draft.given import GivenDrafter
from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.engine.job import Request
from edgespec.engine.options import DraftChoice
from edgespec.events import Notice
from edgespec.spec.ports import Drafter
from edgespec.text.vocab import Vocabulary


class Drafters:
    """Makes each request's drafters. One lookup serves them all, so that how often copies are right is learnt for good;
    its index of a request's text ends with the request.
    """

    def __init__(self, vocab: Vocabulary, clock: Callable[[], float]) -> None:
        self._vocab = vocab
        self._clock = clock
        self._lookup = LookupDrafter()

    def for_request(self, request: Request, notify: Callable[[Notice], None]) -> tuple[Drafter, ...]:
        """A predicted text is drafted from even with `--draft off`, since the caller asked for it by name."""
        chosen: list[Drafter] = []
        if request.options.prediction:
            chosen.append(GivenDrafter(self._vocab.tokenize(request.options.prediction)))
        if request.options.draft is not DraftChoice.OFF:
            chosen.append(self._lookup)
        return tuple(GuardedDrafter(one, self._vocab.n_vocab, self._clock, notify) for one in chosen)
