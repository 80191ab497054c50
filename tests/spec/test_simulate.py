"""What the measured policy promises, on a virtual clock: near the oracle where drafting pays, near plain where not.

Seconds are plain passes. Bars are those of the design; the seeds are fixed, so nothing here can flicker.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.ledger import Entry, replay
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.predict import overlapped_seconds, serial_seconds, tokens_per_pass
from edgespec.spec.simulate import Copies, Machine, Process, Run, Steady, line, simulate, through

# Measured on two cores, SmolLM2-135M, in ms: with AMX and without. The first is the stepped table of the tests.
AMX = through([(1, 9.3), (2, 13.1), (3, 14.4), (4, 15.7), (6, 18.2), (8, 20.8), (12, 25.0), (16, 29.2), (32, 52.9)])
PLAIN_CPU = through([(1, 10), (2, 19), (3, 23), (4, 27), (6, 36), (8, 44), (12, 62), (16, 79), (24, 113), (32, 147)])

# With each curve what a drafted token costs where the drafter is not free.
CURVES = {
    "line 0.03": (line(0.03), 0.05),
    "line 0.15": (line(0.15), 0.10),
    "line 0.35": (line(0.35), 0.10),
    "line 0.6": (line(0.6), 0.15),
    "AMX": (AMX, 0.10),
    "plain CPU": (PLAIN_CPU, 0.10),
}
switching = pytest.mark.parametrize("curve", [curve for curve in CURVES if curve != "plain CPU"])
cases = pytest.mark.parametrize("curve", CURVES)
priced = pytest.mark.parametrize("free", [True, False], ids=["free", "costly"])


def machine_of(curve: str, free: bool, noise: float = 0.03) -> Machine:
    seconds, draft_seconds = CURVES[curve]
    return Machine(seconds, 0.0 if free else draft_seconds, noise)


def measured(machine: Machine, journal: list[Entry] | None = None, table: CostTable | None = None) -> MeasuredPolicy:
    costs = {"simulated": DraftCosts([(1, machine.draft_seconds)])} if machine.draft_seconds else None
    return MeasuredPolicy(table or machine.table(), costs, journal=(journal if journal is not None else []).append)


def run(machine: Machine, process: Process, n_tokens: int, seed: int = 0) -> Run:
    """With the measured policy; its ledger must have kept the bound."""
    journal: list[Entry] = []
    done = simulate(measured(machine, journal), machine, process, n_tokens, seed)
    assert replay(journal).kept
    return done


# -- the simulator itself ---------------------------------------------------------------------------------------------


def test_without_noise_a_fixed_chain_takes_what_the_closed_form_says() -> None:
    machine = Machine(line(0.15), draft_seconds=0.1, noise=0.0)
    n_tokens = 4000
    done = simulate(FixedPolicy(4), machine, Steady((0.8,), seed=3), n_tokens)
    assert done.times[-1] == pytest.approx(done.n_rounds * serial_seconds(4, 0.1, 1.6), rel=2e-3)
    assert n_tokens / done.n_rounds == pytest.approx(tokens_per_pass(0.8, 4), rel=0.03)
    assert done.n_drafted == pytest.approx(4 * done.n_rounds, abs=8)
    assert machine.oracle(0.8) <= serial_seconds(4, 0.1, 1.6) / tokens_per_pass(0.8, 4)


def test_without_drafts_a_token_takes_a_pass() -> None:
    done = simulate(FixedPolicy(0), Machine(AMX, noise=0.0), Steady((0.9,)), 50)
    assert done.times == tuple(float(i + 1) for i in range(50))


@pytest.mark.parametrize(("hit_rate", "slowdown"), [(0.5, 0.0), (0.9, 0.05), (1.0, 0.3)])
def test_a_second_device_takes_what_the_overlap_form_says(hit_rate: float, slowdown: float) -> None:
    machine = Machine(line(0.1), draft_seconds=0.2, noise=0.0, hit_rate=hit_rate, slowdown=slowdown)
    done = simulate(FixedPolicy(5), machine, Steady((0.7,), seed=5), 3000)
    wanted = overlapped_seconds(5, 0.2, 1.5, hit_rate, slowdown)
    assert done.times[-1] / done.n_rounds == pytest.approx(wanted, rel=0.02)


def test_every_token_comes_out_once_and_time_goes_forward() -> None:
    done = run(Machine(AMX), Copies(300), 300)
    assert len(done.times) == 300
    assert list(done.times) == sorted(done.times)


# -- never slower -----------------------------------------------------------------------------------------------------


@cases
@priced
def test_at_acceptance_of_five_percent_it_costs_at_most_two_and_a_half(curve: str, free: bool) -> None:
    assert run(machine_of(curve, free), Steady((0.05,), seed=1), 500).seconds_per_token <= 1.025


@pytest.mark.parametrize(("curve", "free"), [*((curve, True) for curve in CURVES), ("AMX", False), ("line 0.6", False)])
def test_random_tokens_claimed_to_be_certain_cost_at_most_three_percent(curve: str, free: bool) -> None:
    assert run(machine_of(curve, free), Steady((0.0,), claim=0.99), 1000).seconds_per_token <= 1.03


@cases
def test_a_drafter_that_turns_hostile_after_a_good_phase_costs_little(curve: str) -> None:
    done = run(machine_of(curve, free=True), Steady((0.95, 0.0), period=400, claim=0.99, seed=2), 800)
    assert done.times[-1] - done.times[399] <= 1.05 * 400


def test_hiccups_and_a_warming_machine_do_not_make_it_slower() -> None:
    for machine in (
        Machine(PLAIN_CPU, noise=0.1, hiccups=0.02),
        Machine(AMX, noise=0.1, hiccups=0.02),
        Machine(AMX, drift=3e-4),
    ):
        plain = simulate(FixedPolicy(0), machine, Steady((0.0,)), 500)
        for acceptance in (0.1, 0.5):
            done = run(machine, Steady((acceptance,), seed=4), 500)
            assert done.times[-1] <= 1.03 * plain.times[-1]


@pytest.mark.parametrize("factor", [1.3, 1.7])
def test_a_table_that_is_wrong_about_wide_passes_costs_little(factor: float) -> None:
    table = Machine(AMX).table()
    machine = Machine(tuple(s * (factor if rows > 1 else 1.0) for rows, s in enumerate(AMX)))
    for acceptance in (0.3, 0.6):
        journal: list[Entry] = []
        done = simulate(measured(machine, journal, table), machine, Steady((acceptance,), seed=2), 600)
        assert replay(journal).kept
        assert done.seconds_per_token <= 1.035


# -- close to the best ------------------------------------------------------------------------------------------------


@switching
@priced
def test_switching_acceptance_stays_within_eight_percent_of_the_oracle(curve: str, free: bool) -> None:
    machine = machine_of(curve, free)
    ratios = []
    for seed in (0, 1):
        process = Steady((0.85, 0.1), period=300, seed=seed)
        oracle = 600 * (machine.oracle(0.85) + machine.oracle(0.1))
        ratios.append(run(machine, process, 1200, seed).times[-1] / oracle)
    assert sum(ratios) / len(ratios) <= 1.08


@pytest.mark.parametrize(("curve", "free"), [("line 0.03", True), ("AMX", True), ("line 0.15", False), ("AMX", False)])
def test_it_recovers_from_a_bad_phase_within_64_tokens(curve: str, free: bool) -> None:
    """After 0.9, 0.1, 0.9: from token 64 of the third phase on at least 90 % of the oracle's speed."""
    machine = machine_of(curve, free)
    seconds = 0.0
    for seed in range(6):
        times = run(machine, Steady((0.9, 0.1), period=300, seed=seed), 900, seed).times
        seconds += times[899] - times[663]
    assert 6 * 236 * machine.oracle(0.9) >= 0.9 * seconds


@cases
def test_copied_text_takes_no_longer_than_with_the_best_fixed_length_in_hindsight(curve: str) -> None:
    """A look-up with bursts of copies, honest or off in its claims. The policy pays for learning, but can be silent."""
    machine = machine_of(curve, free=True)
    fixed = min(simulate(FixedPolicy(n), machine, Copies(500, seed=6), 500).times[-1] for n in (0, 1, 3, 7, 15))
    for lie, bar in ((1.0, 1.03), (0.6, 1.05), (1.6, 1.05)):
        assert run(machine, Copies(500, lie=lie, seed=6), 500).times[-1] <= bar * fixed


def test_a_drafter_on_a_second_device_is_used_more() -> None:
    """The policy learns what its calls really take: hidden behind the pass, the same drafter pays."""
    serial = Machine(AMX, draft_seconds=0.3)
    beside = Machine(AMX, draft_seconds=0.3, hit_rate=0.8, slowdown=0.05)
    alone, hidden = (run(machine, Steady((0.75,), seed=8), 600) for machine in (serial, beside))
    assert hidden.times[-1] < 0.9 * alone.times[-1]


# -- the bound --------------------------------------------------------------------------------------------------------


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    steps = draw(st.lists(st.floats(0.0, 1.2), min_size=16, max_size=16))
    curve = [1.0, 1.0]
    for step in steps:
        curve.append(curve[-1] + step)
    return Machine(
        tuple(curve),
        draft_seconds=draw(st.sampled_from([0.0, 0.02, 0.2, 1.0])),
        noise=draw(st.sampled_from([0.0, 0.03, 0.2])),
        hit_rate=draw(st.sampled_from([0.0, 0.0, 0.7])),
        slowdown=draw(st.sampled_from([0.0, 0.2])),
        hiccups=draw(st.sampled_from([0.0, 0.0, 0.05])),
        drift=draw(st.sampled_from([0.0, 1e-3])),
    )


@st.composite
def processes(draw: st.DrawFn, n_tokens: int) -> Process:
    seed = draw(st.integers(0, 10**6))
    if draw(st.booleans()):
        burst, lie = draw(st.sampled_from([5.0, 40.0])), draw(st.sampled_from([0.5, 3.0]))
        return Copies(n_tokens, burst, lie=lie, seed=seed)
    acceptances = draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=1, max_size=3))
    return Steady(acceptances, period=draw(st.sampled_from([20, 70])), claim=draw(st.floats(0.05, 0.99)), seed=seed)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(machines(), processes(n_tokens=120), st.integers(0, 10**6), st.booleans())
def test_the_ledger_keeps_its_bound_in_every_run(machine: Machine, process: Process, seed: int, declared: bool) -> None:
    journal: list[Entry] = []
    costs = {"simulated": DraftCosts([(1, machine.draft_seconds)])} if machine.draft_seconds and declared else None
    done = simulate(MeasuredPolicy(machine.table(), costs, journal=journal.append), machine, process, 120, seed)
    seen = replay(journal)
    assert seen.kept
    assert seen.n_rounds == done.n_rounds
    assert seen.total_seconds == pytest.approx(done.times[-1])
