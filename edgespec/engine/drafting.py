"""Which drafters guess for a request, from what the caller chose."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

from edgespec.choice import DraftChoice
from edgespec.draft.given import GivenDrafter
from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.engine.job import Request
from edgespec.events import Notice
from edgespec.spec.ports import Drafter
from edgespec.text.vocab import Vocabulary

NOT_TUNED = Notice(
    "not-tuned",
    "this model was not measured on this machine yet, so nothing is drafted; 'edgespec tune' measures it",
)


class Drafters:
    """Makes each request's drafters. One lookup serves all requests of a choice, so that how often copies are right is
    learnt for good; its index of a request's text ends with the request.

    `own`: what drafts instead of the lookup. `decides`: whether anything is known that `auto` can go by.
    """

    def __init__(
        self,
        vocab: Vocabulary,
        clock: Callable[[], float],
        decides: Callable[[], bool],
        own: Seq[Drafter] | None = None,
    ) -> None:
        self._vocab = vocab
        self._clock = clock
        self._decides = decides
        self._own = own
        self._told = False
        self._general: dict[DraftChoice, tuple[Drafter, ...]] = {}

    def for_request(self, request: Request, notify: Callable[[Notice], None]) -> tuple[Drafter, ...]:
        """A predicted text is drafted from even with `--draft off`, since the caller asked for it by name."""
        chosen: list[Drafter] = []
        if request.options.prediction:
            chosen.append(GivenDrafter(self._vocab.tokenize(request.options.prediction)))
        if request.options.draft.asks("lookup") or self._may_choose(request, notify):
            chosen += self._general_of(request.options.draft)
        return tuple(GuardedDrafter(one, self._vocab.n_vocab, self._clock, notify) for one in chosen)

    def _general_of(self, choice: DraftChoice) -> tuple[Drafter, ...]:
        if self._own is not None:
            return tuple(self._own)
        return self._general.setdefault(choice, (LookupDrafter(),))

    def _may_choose(self, request: Request, notify: Callable[[Notice], None]) -> bool:
        if request.options.draft != DraftChoice.AUTO:
            return False
        decides = self._decides()
        if not decides and not self._told:
            self._told = True
            notify(NOT_TUNED)
        return decides
