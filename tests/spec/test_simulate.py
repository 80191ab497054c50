"""What the measured policy promises, on a virtual clock: near the oracle where drafting pays, near plain where not.

Seconds are plain passes. Bars are those of the design; the seeds are fixed, so nothing here can flicker.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.latency import Beside, Candidate, Draft, Placement, estimate
from edgespec.spec.ledger import Entry, replay
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.outcomes import constant
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.predict import serial_seconds, tokens_per_pass
from edgespec.spec.simulate import Machine, Run, line, simulate, through
from edgespec.spec.simulate_text import Copies, Process, Steady
from tests.spec.published import BESIDE, RANKS

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
    """The policy learns what its calls really take: hidden behind the pass, the same drafter pays more."""
    serial = Machine(AMX, draft_seconds=0.2)
    beside = replace(serial, beside=BESIDE, ranks=RANKS)
    alone, hidden = (
        [run(machine, Steady((0.75,), seed=seed), 600, seed) for seed in (1, 2, 3)] for machine in (serial, beside)
    )
    assert sum(one.times[-1] for one in hidden) < 0.93 * sum(one.times[-1] for one in alone)
    assert sum(one.n_drafted for one in hidden) > sum(one.n_drafted for one in alone)


@pytest.mark.parametrize(("curve", "draft_seconds", "acceptance"), [(AMX, 0.15, 0.75), (line(0.15), 0.15, 0.8)])
def test_beside_a_second_device_the_policy_finds_about_what_the_latency_model_promises(
    curve: tuple[float, ...], draft_seconds: float, acceptance: float
) -> None:
    """Nobody tells it the hit rate, the kappas or the acceptance."""
    machine = Machine(curve, draft_seconds, beside=BESIDE, ranks=RANKS)
    draft = Draft(draft_seconds, constant(acceptance), RANKS)
    promised = estimate(Candidate(Placement.OVERLAPPED, curve, draft, BESIDE))
    seeds = range(1, 5)
    seconds = [run(machine, Steady((acceptance,), seed=seed), 600, seed).seconds_per_token for seed in seeds]
    assert sum(seconds) / len(seconds) <= 1.09 / promised.tokens_per_second


# -- a text to be read first ------------------------------------------------------------------------------------------


def reading(machine: Machine, acceptance: float, n_tokens: int, seed: int, n_prompt: int) -> Run:
    journal: list[Entry] = []
    costs = {"simulated": DraftCosts([(1, machine.draft_seconds)], read_seconds=machine.read_seconds)}
    policy = MeasuredPolicy(machine.table(), costs, journal=journal.append)
    done = simulate(policy, machine, Steady((acceptance,), seed=seed), n_tokens, seed, n_prompt)
    assert replay(journal).kept
    return done


def test_a_good_model_that_must_read_the_prompt_gains_nine_tenths_of_what_there_is_to_gain() -> None:
    """Of what the best length gains for who knows the acceptance and reads at once, on the same luck."""
    machine = Machine(line(0.15), draft_seconds=0.15, read_seconds=0.02)
    gained = possible = 0.0
    for seed in range(6):
        possible += 600 - simulate(FixedPolicy(3), machine, Steady((0.8,), seed=seed), 600, seed, 300).times[-1]
        gained += 600 - reading(machine, 0.8, 600, seed, 300).times[-1]
    assert gained >= 0.9 * possible
    assert possible >= 0.9 * 6 * (600 - 600 * machine.oracle(0.8) - 300 * 0.02)


@pytest.mark.parametrize("acceptance", [0.0, 0.1])
def test_a_bad_model_that_must_read_the_prompt_costs_at_most_two_and_a_half_percent(acceptance: float) -> None:
    machine = Machine(line(0.15), draft_seconds=0.15, read_seconds=0.02)
    for seed in range(2):
        assert reading(machine, acceptance, 600, seed, 300).seconds_per_token <= 1.025


def test_an_excellent_model_starts_although_a_long_prompt_costs_many_plain_tokens() -> None:
    machine = Machine(line(0.03), draft_seconds=0.05, read_seconds=0.02)
    done = reading(machine, 0.9, 600, seed=1, n_prompt=1000)
    assert done.times[-1] < 0.6 * 600
    assert max(b - a for a, b in pairwise(done.times)) >= 20.0


def test_where_reading_costs_more_than_the_rest_of_the_answer_can_give_it_never_starts() -> None:
    machine = Machine(line(0.15), draft_seconds=0.15, read_seconds=0.02)
    assert reading(machine, 0.9, 30, seed=1, n_prompt=1000).n_drafted == 0
    assert reading(replace(machine, read_seconds=0.05), 0.9, 600, seed=1, n_prompt=1000).n_drafted == 0


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
        beside=draw(st.sampled_from([None, None, BESIDE, Beside(0.2, 0.5, uncut_seconds=0.3)])),
        ranks=draw(st.sampled_from([(), RANKS])),
        read_seconds=draw(st.sampled_from([0.0, 0.01])),
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
@given(machines(), processes(n_tokens=120), st.integers(0, 10**6), st.booleans(), st.sampled_from([1, 200, 1500]))
def test_the_ledger_keeps_its_bound_in_every_run(
    machine: Machine, process: Process, seed: int, declared: bool, n_prompt: int
) -> None:
    journal: list[Entry] = []
    costs = None
    if machine.draft_seconds and declared:
        costs = {"simulated": DraftCosts([(1, machine.draft_seconds)], read_seconds=machine.read_seconds)}
    policy = MeasuredPolicy(machine.table(), costs, journal=journal.append)
    done = simulate(policy, machine, process, 120, seed, n_prompt)
    seen = replay(journal)
    assert seen.kept
    assert seen.n_rounds == done.n_rounds
    assert seen.total_seconds == pytest.approx(done.times[-1])


# -- widths that tuning did not come to -------------------------------------------------------------------------------

# As of a kernel that takes rows by sixes: the widths of a quick tuning lie just beyond its steps.
SIXES = through([(1, 1.0), (3, 1.2), (6, 1.5), (8, 2.4), (12, 2.6), (16, 4.0), (32, 7.0)])
QUICK = (1, 2, 4, 8, 16)


def quickly_tuned(machine: Machine) -> CostTable:
    return CostTable((0,), QUICK, (tuple(machine.curve[width] for width in QUICK),), is_partial=True)


def with_table(machine: Machine, table: CostTable, acceptance: float, n_tokens: int, seed: int) -> Run:
    journal: list[Entry] = []
    done = simulate(measured(machine, journal, table), machine, Steady((acceptance,), seed=seed), n_tokens, seed)
    assert replay(journal).kept
    return done


@pytest.mark.parametrize("acceptance", [0.5, 0.7])
def test_what_a_quick_tuning_left_out_is_learnt_from_rounds(acceptance: float) -> None:
    """Of what the full table gains over the quick one, the last third of the text has at least half. Without trials
    the quick one is as slow at the end as at the beginning: it never drafts at another width.
    """
    machine = Machine(SIXES)
    known = [width - 1 for width in QUICK]
    best = min(machine.curve[1 + n] / tokens_per_pass(acceptance, n) for n in known)
    ends = {"full": 0.0, "quick": 0.0}
    for seed in range(2):
        for name, table in (("full", machine.table()), ("quick", quickly_tuned(machine))):
            times = with_table(machine, table, acceptance, 2400, seed).times
            ends[name] += (times[-1] - times[1599]) / 800 / 2
    assert machine.oracle(acceptance) < 0.93 * best
    assert ends["quick"] <= ends["full"] + 0.5 * (best - ends["full"])


@pytest.mark.parametrize("curve", ["AMX", "line 0.35"])
def test_learning_costs_next_to_nothing_where_there_is_nothing_to_learn(curve: str) -> None:
    machine = machine_of(curve, free=True)
    for acceptance in (0.05, 0.7):
        full = with_table(machine, machine.table(), acceptance, 1000, seed=1).times[-1]
        quick = with_table(machine, quickly_tuned(machine), acceptance, 1000, seed=1).times[-1]
        assert quick <= 1.03 * full
