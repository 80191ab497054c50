"""All causes of little or no drafting, and those that the facts show."""

from __future__ import annotations

from edgespec.doctor import abilities, prices, rounds, second
from edgespec.doctor.facts import Facts
from edgespec.doctor.finding import Cause, Finding

CAUSES: tuple[Cause, ...] = (
    abilities.draft_off,
    abilities.no_drafter,
    abilities.no_rollback,
    abilities.short_answer,
    abilities.context_full,
    abilities.windowed_exact,
    abilities.narrow_class,
    prices.not_tuned,
    prices.unmeasured,
    prices.partly_tuned,
    prices.steep_curve,
    prices.low_acceptance,
    rounds.ledger_spent,
    rounds.no_match,
    rounds.not_worth_it,
    rounds.drafter_failed,
    second.second_not_measured,
    second.second_does_not_pay,
    prices.cores_taken,
    prices.slow_now,
    abilities.settings_died,
    abilities.windowed_cache,
    abilities.no_gpu_device,
)


def findings(facts: Facts) -> list[Finding]:
    """What was found; causes that stop drafting first."""
    found = [finding for cause in CAUSES if (finding := cause(facts)) is not None]
    return sorted(found, key=lambda one: not one.stops)
