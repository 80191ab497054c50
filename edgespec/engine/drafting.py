"""Which drafters guess for a request, from what the caller chose."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

from edgespec.choice import AUTO, CASCADE, MODEL, OFF, WITH_MODEL, DraftChoice
from edgespec.draft.corpus import Corpus
from edgespec.draft.forced import ForcedDrafter, Habits
from edgespec.draft.given import GivenDrafter
from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.jacobi import JacobiDrafter
from edgespec.draft.lookahead import LookaheadDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.draft.recycle import RecycleDrafter
from edgespec.draft.suffix import SuffixDrafter
from edgespec.engine.job import Request
from edgespec.engine.pair.partner import Partner
from edgespec.errors import BadInput
from edgespec.events import Notice
from edgespec.spec.law import Law
from edgespec.spec.ports import Drafter
from edgespec.spec.ratio import PATH
from edgespec.spec.tree import DraftMode
from edgespec.text.vocab import Vocabulary

_NOT_MEASURED = "this model was not measured on this machine with these options yet"
_TUNE = "'edgespec tune' measures it"
_WHEN_IDLE = "it is measured while nothing is asked"


def not_tuned(is_expected: bool, when_idle: bool) -> Notice:
    """Why `auto` does not draft. is_expected: a predicted text is drafted from all the same."""
    drafted = "nothing but the expected text is drafted" if is_expected else "nothing is drafted"
    return Notice("not-tuned", f"{_NOT_MEASURED}, so {drafted}; {_WHEN_IDLE if when_idle else _TUNE}")


# What `auto` asks beside a second model. Recycling has a guess in every round, which costs more than it gives where a
# pass of a few rows costs much more than one of one row.
AUTOMATIC = ("suffix",)
# The plain look-up where a plain pass takes less than this: suffixes cost some 0.15 ms a round, which shows there.
FAST = ("lookup",)
FAST_SECONDS = 0.015


# How the second model chooses its guesses for each verifier; SAMPLED where nothing is said.
_MODES = {PATH: DraftMode.COUPLED, "sibling-set": DraftMode.POINT, "specinfer": DraftMode.REPEATED}


def automatic(t1_seconds: float, has_corpus: bool) -> tuple[str, ...]:
    """The drafters of `auto` for a target whose plain pass takes so long; only suffixes read a corpus."""
    return FAST if 0.0 < t1_seconds < FAST_SECONDS and not has_corpus else AUTOMATIC


class Drafters:
    """Makes each request's drafters. One lookup serves all requests of a choice, so that how often copies are right is
    learnt for good; its index of a request's text ends with the request.

    `own`: what drafts instead of the lookup. `decides`: whether anything is known that `auto` can go by. `partner`: the
    second model, where there is one. `corpus`: other texts to draft from. `t1_seconds`: of a
    plain pass, 0 where nothing was measured. `when_idle`: a model that was not measured is, while nothing is asked.
    """

    def __init__(
        self,
        vocab: Vocabulary,
        clock: Callable[[], float],
        decides: Callable[[], bool],
        own: Seq[Drafter] | None = None,
        partner: Partner | None = None,
        corpus: Corpus | None = None,
        t1_seconds: Callable[[], float] = lambda: 0.0,
        when_idle: bool = False,
    ) -> None:
        self._vocab = vocab
        self._when_idle = when_idle
        self._clock = clock
        self._decides = decides
        self._own = own
        self._partner = partner
        self._corpus = corpus
        self._t1_seconds = t1_seconds
        self._told = False
        self._general: dict[DraftChoice, tuple[Drafter, ...]] = {}
        self._habits = Habits()

    def for_request(self, request: Request, notify: Callable[[Notice], None]) -> tuple[Drafter, ...]:
        """A predicted text is drafted from even with `--draft off`, since the caller asked for it by name; what a
        grammar forces with every other choice that drafts at all.

        Raises BadInput when the second model is asked for by name and there is none.
        """
        choice = request.options.draft
        chosen: list[Drafter] = []
        if request.options.prediction:
            chosen.append(GivenDrafter(self._vocab.tokenize(request.options.prediction)))
        may_choose = self._may_choose(request, notify)
        if request.constraint is not None and (may_choose or choice not in (DraftChoice.AUTO, DraftChoice.OFF)):
            chosen.append(ForcedDrafter(request.constraint.fork().forced, self._habits))
        if may_choose or choice.names not in ((AUTO,), (OFF,)):
            chosen += self._general_of(choice)
        if choice.asks(CASCADE):
            chosen.append(self._partner_for(request).cascade(Law(request.options.sampling), self._corpus))
        if choice.asks(MODEL) or (may_choose and self._partner is not None and self._partner.may_pay):
            if request.options.verify != PATH:  # a drawn tree cannot share a pass with guesses of another kind
                chosen.clear()
            chosen.append(self._second(request, notify))
        return tuple(GuardedDrafter(one, self._vocab.n_vocab, self._clock, notify) for one in chosen)

    def _second(self, request: Request, notify: Callable[[Notice], None]) -> Drafter:
        mode = _MODES.get(request.options.verify, DraftMode.SAMPLED)
        partner = self._partner_for(request)
        drafter = partner.drafter(Law(request.options.sampling), mode, request.options.exact)
        moved = partner.notice()
        if moved is not None:
            notify(moved)
        return drafter

    def _partner_for(self, request: Request) -> Partner:
        if self._partner is None:
            raise BadInput(
                f"--draft {request.options.draft.value}",
                "there is no second model",
                "name one with '--draft-model', or with '--draft' itself",
            )
        return self._partner

    def _general_of(self, choice: DraftChoice) -> tuple[Drafter, ...]:
        """Those without a second model; each choice has its own, which learn from its requests only."""
        if self._own is not None:
            return tuple(self._own)
        found = self._general.get(choice)
        if found is None:
            names = (
                automatic(self._t1_seconds(), self._corpus is not None) if choice == DraftChoice.AUTO else choice.names
            )
            found = self._general[choice] = tuple(self._make(name) for name in names if name not in WITH_MODEL)
        return found

    def _make(self, name: str) -> Drafter:
        makes: dict[str, Callable[[], Drafter]] = {
            "lookup": LookupDrafter,
            "suffix": lambda: SuffixDrafter(self._corpus),
            "recycle": RecycleDrafter,
            "lookahead": LookaheadDrafter,
            "jacobi": JacobiDrafter,
        }
        return makes[name]()

    def _may_choose(self, request: Request, notify: Callable[[Notice], None]) -> bool:
        if request.options.draft != DraftChoice.AUTO:
            return False
        decides = self._decides()
        if not decides and not self._told:
            self._told = True
            notify(not_tuned(bool(request.options.prediction), self._when_idle))
        return decides
