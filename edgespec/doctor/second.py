"""What is known of a second model beside a target that is not loaded, and the causes in it."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.doctor.facts import Facts, SecondFacts
from edgespec.doctor.finding import Finding
from edgespec.engine.pair.devices import Devices
from edgespec.engine.pair.pairing import devices_for, fitting, weighed_by
from edgespec.engine.pair.second import Second
from edgespec.engine.pair.weighing import gain
from edgespec.events import Notice
from edgespec.library.header import GgufHeader
from edgespec.spec.latency import Placement
from edgespec.spec.placement import Choice
from edgespec.tune.agreement import PairAcceptance, stored_acceptance
from edgespec.tune.decide import PRIOR_ACCEPTANCE
from edgespec.tune.pair import pair_records, stored_pair
from edgespec.tune.tuning import Tuned


def second_facts(
    reference: str,
    target: GgufHeader,
    n_ctx: int,
    library: str,
    tuned: Tuned | None,
    notices: list[Notice],
    devices: Devices,
) -> SecondFacts:
    """On the device where it is expected to gain most. Raises what finding it and fitting it raise."""
    first = reference.partition(",")[0].strip()
    found: list[_Weighed] = []
    for device in devices_for(first, devices):
        second = fitting(first, target, n_ctx, library, notices.append, device)
        found.append(_weighed(second, target, library, tuned))
    best = max(found, key=lambda one: gain(one.choice))
    return _facts(best)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A draft on one device. choice: None where it was not measured there."""

    second: Second
    agreement: PairAcceptance | None
    choice: Choice | None


def _weighed(second: Second, target: GgufHeader, library: str, tuned: Tuned | None) -> _Weighed:
    n_threads = tuned.settings.n_threads if tuned else 0
    times = stored_pair(target.path, second.fingerprint, library, n_threads, pair_records())
    agreement = stored_acceptance(target.path, second.fingerprint, library, pair_records())
    return _Weighed(second, agreement, weighed_by(times, tuned, agreement) if times else None)


def _facts(one: _Weighed) -> SecondFacts:
    second, agreement, choice = one.second, one.agreement, one.choice
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
