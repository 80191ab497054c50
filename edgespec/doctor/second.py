"""What is known of a second model beside a target that is not loaded, and the causes in it."""

from __future__ import annotations

from edgespec.doctor.facts import Facts, SecondFacts
from edgespec.doctor.finding import Finding
from edgespec.engine.pair.pairing import fitting, weighed_by
from edgespec.events import Notice
from edgespec.library.header import GgufHeader
from edgespec.spec.latency import Placement
from edgespec.tune.agreement import stored_acceptance
from edgespec.tune.decide import PRIOR_ACCEPTANCE
from edgespec.tune.pair import pair_records, stored_pair
from edgespec.tune.tuning import Tuned


def second_facts(
    reference: str, target: GgufHeader, n_ctx: int, library: str, tuned: Tuned | None, notices: list[Notice]
) -> SecondFacts:
    """Raises what finding it and fitting it raise."""
    first = reference.partition(",")[0].strip()
    second = fitting(first, target, n_ctx, library, notices.append)
    n_threads = tuned.settings.n_threads if tuned else 0
    times = stored_pair(target.path, second.fingerprint, library, n_threads, pair_records())
    agreement = stored_acceptance(target.path, second.fingerprint, library, pair_records())
    choice = weighed_by(times, tuned, agreement) if times else None
    if choice is None:
        return SecondFacts(second.name, home=second.home.value)
    plain = next(one for one in (choice.best, *(loser.estimate for loser in choice.losers)) if _is_plain(one.placement))
    return SecondFacts(
        second.name,
        choice.best.placement.value,
        choice.best.tokens_per_second / plain.tokens_per_second,
        agreement.top1 if agreement else PRIOR_ACCEPTANCE,
        tuple(loser.reason for loser in choice.losers),
        second.home.value,
    )


def _is_plain(placement: Placement) -> bool:
    return placement is Placement.PLAIN


def second_not_measured(facts: Facts) -> Finding | None:
    second = facts.second
    if second is None or second.placement:
        return None
    return Finding(
        "second-not-measured",
        "it is not known what the second model costs beside this one",
        f"{second.name}: no times of this pair on this machine",
        "run 'edgespec tune MODEL --draft-model DRAFT'",
    )


def second_does_not_pay(facts: Facts) -> Finding | None:
    second = facts.second
    if second is None or second.placement != Placement.PLAIN.value:
        return None
    return Finding(
        "second-does-not-pay",
        f"the second model is not expected to pay at an acceptance of {second.acceptance:.0%}",
        "; ".join(second.reasons),
        "take a smaller draft, or a larger model; '--draft model' uses it all the same",
    )
