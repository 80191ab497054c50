"""Causes that the rounds of an answer have shown. Pure functions of the facts; without an answer they find nothing."""

from __future__ import annotations

from edgespec.doctor.facts import Facts
from edgespec.doctor.finding import Finding
from edgespec.spec.policy import Reason

# A reason that decided this share of the rounds explains the answer.
MOST = 0.5


def ledger_spent(facts: Facts) -> Finding | None:
    curve, ledger = facts.curve, facts.ledger
    if curve is None or ledger is None or not curve.break_even:
        return None
    risk = (min(one.cost_ratio for one in curve.break_even) - 1.0) * curve.seconds[0] * (facts.load or 1.0)
    if ledger.headroom_seconds >= risk:
        return None
    return Finding(
        Reason.LEDGER.value,
        "even the cheapest draft could lose more than may be risked now, so plain decoding has to earn it first",
        f"{ledger.lost_seconds * 1e3:.0f} ms lost, {ledger.headroom_seconds * 1e3:.0f} ms may be risked, "
        f"the cheapest draft risks {risk * 1e3:.0f} ms",
        "nothing to mend: this is what keeps it from ever being much slower",
    )


def no_match(facts: Facts) -> Finding | None:
    asked = facts.asked
    if asked is None or asked.n(Reason.NO_MATCH) < MOST * max(1, asked.n_rounds):
        return None
    return Finding(
        Reason.NO_MATCH.value,
        "the text did not repeat itself, so there was nothing to copy",
        f"{asked.n(Reason.NO_MATCH)} of {asked.n_rounds} rounds without a guess",
        "give the text that is to be changed or quoted in the prompt, or the expected answer with --predict",
    )


def not_worth_it(facts: Facts) -> Finding | None:
    asked = facts.asked
    if asked is None:
        return None
    guessed = asked.n(Reason.DRAFTED) + asked.n(Reason.NOT_WORTH_IT)
    if not guessed or asked.n(Reason.NOT_WORTH_IT) < MOST * guessed:
        return None
    return Finding(
        Reason.NOT_WORTH_IT.value,
        "most guesses were not likely enough to be worth a wider pass",
        f"{asked.n(Reason.NOT_WORTH_IT)} of {guessed} guesses were left alone",
        "nothing to mend: drafting them would have been slower",
    )


def drafter_failed(facts: Facts) -> Finding | None:
    failed = [one for one in (facts.asked.notices if facts.asked else ()) if one.code.startswith("draft-")]
    if not failed:
        return None
    return Finding(
        failed[0].code,
        "a drafter failed and pauses",
        "; ".join(one.message for one in failed),
        "report it, with the drafter's name",
    )
