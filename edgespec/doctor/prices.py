"""Causes in what passes were measured to cost, and in how the machine is now. Pure functions of the facts."""

from __future__ import annotations

from edgespec.doctor.facts import Facts
from edgespec.doctor.finding import Finding
from edgespec.spec.policy import Reason

# What copies reach at their best: after ten matched tokens the next one is right nine times in ten.
LOOKUP_REACH = 0.9
# A machine this much slower than when it was measured is in another state, not noisy.
SLOWER = 1.25
# So much of a core taken by others is noticed by a pass that waits for its slowest thread.
TAKEN_CORES = 0.3


def not_tuned(facts: Facts) -> Finding | None:
    """Then a drafter that is asked for by name drafts a fixed number of tokens, and `auto` nothing."""
    if facts.curve is not None:
        return None
    if facts.settings.windowed:
        return _not_tunable(facts)
    stored = facts.settings.measured_at
    return Finding(
        "not-tuned",
        "it has not been measured yet what passes cost with this model here, so nothing tells where drafting pays",
        f"the tuning of {stored} is of other settings than those that run"
        if stored
        else "no tuning is stored for this model, library, machine and these flags",
        "run 'edgespec tune' while the machine is quiet: what is measured beside busy programs is not kept; an open "
        "'edgespec chat' also measures while nothing is asked",
        _undecided(facts),
    )


def _not_tunable(facts: Facts) -> Finding:
    """Tuning measures with full caches, so another one would bring nothing."""
    return Finding(
        "not-tuned",
        "passes are measured with full caches only, and sliding windows have a small one here, so nothing tells where "
        "drafting pays",
        f"a cache for {facts.model.sliding_window} tokens per window, {facts.machine.free_bytes / 1e9:.1f} GB free",
        "free some memory or give a smaller --ctx-size, so that the whole context is cached; '--draft lookup' drafts "
        "without measurements",
        _undecided(facts),
    )


def _undecided(facts: Facts) -> bool:
    return facts.wishes.draft == "auto" and not facts.wishes.has_prediction


def unmeasured(facts: Facts) -> Finding | None:
    curve = facts.curve
    possible = not facts.wishes.exact or (facts.width_class is not None and max(facts.width_class.widths) > 1)
    if curve is None or not (curve.is_partial or (possible and not curve.break_even)):
        return None
    return Finding(
        Reason.UNMEASURED.value,
        "not all widths were measured, and drafts only go as wide as what was",
        f"measured widths: {', '.join(map(str, curve.widths))}",
        "run 'edgespec tune' again with more time",
        not curve.break_even,
    )


def partly_tuned(facts: Facts) -> Finding | None:
    if facts.curve is None or facts.curve.is_partial or not facts.settings.cut_short:
        return None
    return Finding(
        "partly-tuned",
        "tuning was cut short, so faster settings may have been overlooked",
        f"{facts.settings.n_tried} settings on {facts.settings.measured_at}, not all of them to the end",
        "run 'edgespec tune' again: it goes on where it stopped",
    )


def steep_curve(facts: Facts) -> Finding | None:
    easiest = facts.curve.easiest if facts.curve else None
    if easiest is None or easiest.acceptance <= LOOKUP_REACH:
        return None
    never = easiest.acceptance >= 1.0  # then even a guess that is surely right brings no more than it costs
    needed = "never pays" if never else f"pays from {_percent(easiest.acceptance)} acceptance"
    return Finding(
        "steep-curve",
        "wider passes cost so much here that not even perfect guesses would pay"
        if never
        else f"wider passes cost much here: it drafts only where it is surer than {_percent(easiest.acceptance)}",
        f"the cheapest draft, {easiest.rows} rows, takes {easiest.cost_ratio:.2f} plain passes and {needed}; "
        f"copies reach {_percent(LOOKUP_REACH)}",
        "try another quantisation (Q8_0 and Q4_0 have flatter curves than Q4_K)"
        + ("" if never or facts.wishes.has_prediction else ", or give a good text with --predict"),
        never,
    )


def low_acceptance(facts: Facts) -> Finding | None:
    easiest = facts.curve.easiest if facts.curve else None
    seen = [one for one in facts.drafters if one.is_observed]
    if easiest is None or easiest.acceptance > LOOKUP_REACH:  # then it is the curve
        return None
    if not seen or any(one.acceptance >= easiest.acceptance for one in seen):
        return None
    return Finding(
        "low-acceptance",
        "guesses have been right too seldom to pay",
        "; ".join(f"{one.name} {_percent(one.acceptance)} of {one.n_steps}" for one in seen)
        + f"; {_percent(easiest.acceptance)} would do at {easiest.rows} rows",
        "nothing to mend: texts that repeat themselves are drafted for as soon as they come",
    )


def slow_now(facts: Facts) -> Finding | None:
    if facts.load is None or facts.load < SLOWER:
        return None
    return Finding(
        "slow-now",
        "passes take longer than when they were measured",
        f"{facts.load:.2f} times as long",
        "close other programs or let the machine cool down; if it stays, run 'edgespec tune' again",
    )


def cores_taken(facts: Facts) -> Finding | None:
    machine, others = facts.machine, facts.machine.others
    n_threads = facts.settings.settings.n_threads
    told = next((one.message for one in (facts.asked.notices if facts.asked else ()) if one.code == "cores-taken"), "")
    crowded = others is not None and others >= TAKEN_CORES and machine.n_cores - others < n_threads
    if not told and not crowded:
        return None
    return Finding(
        "cores-taken",
        "other programs use the cores, so passes take longer, with fewer threads, and nothing measured now is kept",
        told or f"{others:.1f} of {machine.n_cores} cores are taken, threads wanted: {n_threads}",
        "wait for them or close them; full speed comes back by itself",
    )


def _percent(share: float) -> str:
    """A share just below 1 is not said to be 100 %, than which nothing is surer."""
    return f"{share:.0%}" if share <= 0.99 else f"{share:.2%}"
