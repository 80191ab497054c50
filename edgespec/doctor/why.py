"""Why an answer was drafted for as it was, in one sentence: for panels beside an answer.

Contract: a pure function of counts. Knows no engine and no display; causes with evidence and remedies are `findings`.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgespec.choice import DraftChoice
from edgespec.spec.policy import Reason
from edgespec.tally import Tallied

_WORDS = {
    Reason.NO_DRAFTER: "there was no drafter to ask",
    Reason.NO_ROLLBACK: "the model keeps a running state, out of which wrong guesses cannot be taken again",
    Reason.LIMIT: "there was no room for guesses",
    Reason.UNMEASURED: "passes over guesses were not measured yet",
    Reason.NO_MATCH: "the text did not repeat itself, so there was nothing to copy",
    Reason.NOT_WORTH_IT: "no guess was likely enough to be worth a wider pass",
    Reason.LEDGER: "plain decoding first had to earn what a wrong guess could lose",
    Reason.REFRESH: "the price of a plain pass was measured again",
    Reason.SHORT_ANSWER: "the answer might have ended too soon for it to pay",
}


def why(choice: DraftChoice, tallied: Tallied, rounds: Mapping[Reason, int] | None) -> str:
    """rounds: how often each reason decided while the answer was made; None when nothing was measured."""
    others = {reason: n for reason, n in (rounds or {}).items() if n > 0 and reason in _WORDS}
    main = max(others, key=lambda reason: others[reason], default=None)
    if not tallied.n_drafted:
        return _nothing(choice, _WORDS[main] if main else "", rounds is None)
    said = _drafted(tallied)
    if main is None:
        return said + ("; whether that pays was not measured here yet." if rounds is None else ".")
    n = others[main]
    return f"{said}; in {n} other {'pass' if n == 1 else 'passes'} {_WORDS[main]}."


def _drafted(tallied: Tallied) -> str:
    who = " and ".join(name for name, _ in tallied.n_by_source)
    if not who:
        return f"It was drafted, and none of {tallied.n_drafted} guesses came true"
    return f"{who[0].upper()}{who[1:]} drafted, and {tallied.n_accepted} of {tallied.n_drafted} guesses came true"


def _nothing(choice: DraftChoice, cause: str, unmeasured: bool) -> str:
    if choice is DraftChoice.OFF:
        return "Drafting is switched off."
    if unmeasured:
        return "Nothing was drafted: what passes cost on this machine was not measured yet, 'edgespec tune' does it."
    return f"Nothing was drafted: {cause}." if cause else "Nothing was drafted."
