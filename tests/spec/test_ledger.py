"""The bound holds after every round, whatever happens, as long as rounds keep to what the gate was told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.ledger import EPS, Account, Entry, Ledger, replay

PLAIN = Entry(seconds=1.0, draft_seconds=0.0, n_emitted=1, t1_seconds=1.0)


@st.composite
def rounds(draw: st.DrawFn) -> list[Entry]:
    """What a loop might offer the gate: bounds from modest to absurd, times up to the bound, T1 that drifts."""
    found: list[Entry] = []
    t1 = 1.0
    for _ in range(draw(st.integers(1, 60))):
        t1 *= draw(st.sampled_from([1.0, 1.0, 1.0, 1.3, 0.8]))
        if draw(st.booleans()):
            found.append(Entry(t1, 0.0, 1, t1))
            continue
        drafting = draw(st.floats(0.0, 0.5))
        bound = t1 * draw(st.floats(1.0, 8.0))
        seconds = drafting + bound * draw(st.floats(0.3, 1.0))
        found.append(Entry(seconds, drafting, draw(st.integers(1, 12)), t1, bound, bound + drafting - t1))
    return found


def obeyed(ledger: Ledger, entry: Entry) -> Entry:
    """The round if the gate lets it through, a plain one instead if not."""
    if not entry.bound_seconds or ledger.allows(entry.risk_seconds, entry.t1_seconds):
        return entry
    return Entry(entry.t1_seconds, 0.0, 1, entry.t1_seconds)


@given(rounds())
def test_the_total_never_exceeds_its_limit(offered: list[Entry]) -> None:
    ledger = Ledger()
    plain, t1_max = 0.0, 0.0
    for entry in offered:
        entry = obeyed(ledger, entry)
        ledger.settle(entry)
        plain += entry.n_emitted * entry.t1_seconds
        t1_max = max(t1_max, entry.t1_seconds)
        limit = (plain + 3.0 * t1_max) / (1.0 - EPS)
        assert ledger.total_seconds <= limit + 1e-9
        assert ledger.limit_seconds == pytest.approx(limit)


@given(rounds())
def test_a_replay_of_obedient_rounds_finds_the_bound_kept(offered: list[Entry]) -> None:
    ledger, journal = Ledger(), []
    for entry in offered:
        journal.append(obeyed(ledger, entry))
        ledger.settle(journal[-1])
    seen = replay(journal)
    assert seen.kept
    assert seen.worst_seconds <= 1e-9
    assert (seen.n_rounds, seen.n_refused) == (len(journal), 0)
    assert (seen.total_seconds, seen.limit_seconds) == (ledger.total_seconds, ledger.limit_seconds)


def test_a_replay_shows_a_round_that_the_gate_would_have_refused() -> None:
    wild = Entry(seconds=9.0, draft_seconds=0.0, n_emitted=1, t1_seconds=1.0, bound_seconds=9.0, risk_seconds=8.0)
    seen = replay([PLAIN, wild])
    assert (seen.n_refused, seen.kept) == (1, False)
    assert seen.worst_seconds > 0.0


def test_a_round_longer_than_foreseen_shows_as_overshoot() -> None:
    late = Entry(seconds=6.0, draft_seconds=0.0, n_emitted=1, t1_seconds=1.0, bound_seconds=3.5, risk_seconds=2.5)
    seen = replay([PLAIN, late])
    assert seen.overshoot_seconds == pytest.approx(2.5)
    assert seen.worst_seconds > 0.0
    assert seen.kept


def test_overshoots_do_not_add_up() -> None:
    """Each is at most one round's, since the next draft is refused until the loss is earned back."""
    ledger, journal = Ledger(), []
    for _ in range(2000):
        late = Entry(seconds=2.9, draft_seconds=0.0, n_emitted=1, t1_seconds=1.0, bound_seconds=1.9, risk_seconds=0.9)
        journal.append(late if ledger.allows(late.risk_seconds, 1.0) else PLAIN)
        ledger.settle(journal[-1])
    seen = replay(journal)
    assert seen.kept
    assert seen.worst_seconds < 1.1
    assert sum(entry.bound_seconds > 0 for entry in journal) < 30


def test_three_plain_tokens_may_be_risked_at_first_and_two_percent_of_the_time_later() -> None:
    ledger = Ledger()
    assert ledger.allows(3.0, 1.0)
    assert not ledger.allows(3.01, 1.0)
    for _ in range(100):
        ledger.settle(PLAIN)
    assert ledger.headroom(1.0) == pytest.approx(5.0)


def test_drafting_in_a_plain_round_is_charged() -> None:
    ledger = Ledger()
    ledger.settle(replace(PLAIN, seconds=1.5, draft_seconds=0.5))
    assert ledger.lost_seconds == pytest.approx(0.5)
    assert ledger.plain_seconds == pytest.approx(1.0)


def test_neither_a_good_phase_nor_a_long_plain_one_finances_a_long_bad_one() -> None:
    rich, patient = Ledger(), Ledger()
    for _ in range(100):
        rich.settle(Entry(2.0, 0.0, 10, 1.0, 2.0, 1.0))
    for _ in range(10_000):
        patient.settle(PLAIN)
    assert rich.headroom(1.0) == pytest.approx(51.0)
    assert patient.headroom(1.0) == pytest.approx(51.0)


def test_a_stall_of_the_machine_is_forgiven_once_but_not_twice_in_a_row() -> None:
    stalled = Entry(seconds=50.0, draft_seconds=0.0, n_emitted=2, t1_seconds=1.0, bound_seconds=2.0, risk_seconds=1.0)
    ledger = Ledger()
    ledger.settle(stalled)
    assert ledger.lost_seconds == pytest.approx(0.0)
    assert ledger.stalled_seconds == pytest.approx(48.0)
    ledger.settle(stalled)
    assert ledger.lost_seconds == pytest.approx(48.0)
    ledger.settle(replace(stalled, draft_seconds=49.0))
    assert ledger.lost_seconds == pytest.approx(96.0)


def test_an_answer_may_lose_little_by_itself_and_only_what_it_gained() -> None:
    account = Account()
    assert account.headroom(1.0) == pytest.approx(1.2)
    account.settle(10.0, 10, 1.0, drafted=False)
    assert account.headroom(1.0) == pytest.approx(1.3)
    account.settle(2.3, 1, 1.0, drafted=True)
    assert account.headroom(1.0) == pytest.approx(0.01 * 12.3 + 1.2 - 1.3)
    account.settle(2.0, 102, 1.0, drafted=True)  # a hundred tokens gained are not a hundred to lose
    assert account.headroom(1.0) == pytest.approx(0.01 * 14.3 + 1.2 + 16.0)


# -- what is lent for reading -----------------------------------------------------------------------------------------


@st.composite
def readings(draw: st.DrawFn) -> list[Entry]:
    """Rounds as above, some of which read first: more than the gate would ever let through unlent."""
    found: list[Entry] = []
    for entry in draw(rounds()):
        if not draw(st.booleans()):
            found.append(entry)
            continue
        invested = entry.t1_seconds * draw(st.floats(0.1, 40.0))
        spent = invested * draw(st.floats(0.2, 1.0))
        seconds, drafting = entry.seconds + spent, entry.draft_seconds + spent
        risk = entry.risk_seconds + invested
        found.append(
            replace(entry, seconds=seconds, draft_seconds=drafting, risk_seconds=risk, invested_seconds=invested)
        )
    return found


def lent_or_not(ledger: Ledger, entry: Entry) -> Entry:
    if ledger.allows(entry.risk_seconds, entry.t1_seconds, entry.invested_seconds):
        return entry
    return Entry(entry.t1_seconds, 0.0, 1, entry.t1_seconds)


@given(readings())
def test_with_what_is_lent_the_total_never_exceeds_its_limit(offered: list[Entry]) -> None:
    ledger, journal = Ledger(), []
    plain, t1_max = 0.0, 0.0
    for entry in offered:
        entry = lent_or_not(ledger, entry)
        journal.append(entry)
        ledger.settle(entry)
        plain += entry.n_emitted * entry.t1_seconds if entry.bound_seconds else entry.seconds - entry.draft_seconds
        t1_max = max(t1_max, entry.t1_seconds)
        assert 0.0 <= ledger.lent_seconds <= 32.0 * t1_max + 1e-9
        assert ledger.total_seconds <= (plain + 3.0 * t1_max + ledger.lent_seconds) / (1.0 - EPS) + 1e-9
        assert ledger.total_seconds <= (plain + 35.0 * t1_max) / (1.0 - EPS) + 1e-9
    seen = replay(journal)
    assert seen.kept
    assert seen.worst_seconds <= 1e-9
    assert (seen.total_seconds, seen.limit_seconds) == (ledger.total_seconds, ledger.limit_seconds)


READING = Entry(
    seconds=12.0,
    draft_seconds=10.5,
    n_emitted=1,
    t1_seconds=1.0,
    bound_seconds=2.0,
    risk_seconds=13.0,
    invested_seconds=12.0,
)


def test_reading_is_lent_and_a_rounds_own_losses_are_not() -> None:
    ledger = Ledger()
    assert not ledger.allows(13.0, 1.0)
    assert ledger.allows(13.0, 1.0, invested_seconds=12.0)
    assert not ledger.allows(16.0, 1.0, invested_seconds=12.0)
    ledger.settle(READING)
    assert ledger.lent_seconds == pytest.approx(10.5)  # what was spent, not what was asked for
    assert ledger.credit(1.0) == pytest.approx(21.5)
    assert ledger.headroom(1.0) == pytest.approx(3.0 + 0.02 * 12.0 + 10.5 - 11.0)
    assert not ledger.allows(22.0, 1.0, invested_seconds=22.0)


def test_what_was_lent_is_given_back_by_gains_or_by_the_allowance() -> None:
    gaining, waiting = Ledger(), Ledger()
    for ledger in (gaining, waiting):
        ledger.settle(READING)
    for _ in range(12):
        gaining.settle(Entry(2.0, 0.3, 3, 1.0, 2.0, 1.3))
        assert gaining.headroom(1.0) <= 3.0 + 1e-9 or gaining.lent_seconds == 0.0
    assert gaining.lent_seconds == 0.0
    for _ in range(600):
        waiting.settle(PLAIN)
    assert waiting.lent_seconds == 0.0
    assert waiting.credit(1.0) == pytest.approx(32.0)


def test_a_replay_refuses_more_than_may_be_lent() -> None:
    seen = replay([PLAIN, replace(READING, risk_seconds=41.0, invested_seconds=40.0)])
    assert seen.n_refused == 1


def test_an_answer_lends_for_its_own_reading_once() -> None:
    account = Account()
    assert account.credit(1.0) == pytest.approx(32.0)
    account.settle(12.0, 1, 1.0, drafted=True, invested_seconds=10.5)
    assert account.headroom(1.0) == pytest.approx(0.01 * 12.0 + 1.2 + 10.5 - 11.0)
    assert account.credit(1.0) == pytest.approx(21.5)
    account.settle(5.0, 1, 1.0, drafted=False, invested_seconds=3.0)  # charged to nobody here, so not lent either
    assert account.credit(1.0) == pytest.approx(21.5)


def looks_in(ledger: Ledger, n_rounds: int, look: Entry) -> int:
    """In how many of the next rounds a look is allowed, and made."""
    n_looks = 0
    for _ in range(n_rounds):
        may = ledger.allows_look(0.01, 1.0)
        n_looks += may
        ledger.settle(look if may else PLAIN)
    return n_looks


def test_looks_leave_c0_for_a_draft() -> None:
    ledger = Ledger()
    look = Entry(seconds=1.04, draft_seconds=0.04, n_emitted=1, t1_seconds=1.0)
    assert 400 <= looks_in(ledger, 1000, look) <= 520, "all that comes in"
    assert ledger.headroom(1.0) == pytest.approx(3.0, abs=0.05)


def test_after_a_draft_that_failed_looks_have_half_of_what_comes_in() -> None:
    ledger = Ledger()
    look = Entry(seconds=1.04, draft_seconds=0.04, n_emitted=1, t1_seconds=1.0)
    looks_in(ledger, 200, look)
    ledger.settle(Entry(3.0, 0.0, 1, 1.0, bound_seconds=3.0, risk_seconds=2.0))
    before = ledger.headroom(1.0)
    assert 15 <= looks_in(ledger, 100, look) <= 25
    assert ledger.headroom(1.0) - before == pytest.approx(1.2, abs=0.3)


def test_where_drafts_have_gained_every_look_is_allowed() -> None:
    ledger = Ledger()
    ledger.settle(Entry(2.0, 0.0, 8, 1.0, bound_seconds=2.0, risk_seconds=1.0))
    assert looks_in(ledger, 100, Entry(seconds=1.04, draft_seconds=0.04, n_emitted=1, t1_seconds=1.0)) == 100


def test_a_look_that_the_ledger_cannot_pay_is_not_allowed() -> None:
    ledger = Ledger()
    ledger.settle(Entry(seconds=3.0, draft_seconds=3.0, n_emitted=0, t1_seconds=1.0))
    assert not ledger.allows_look(0.1, 1.0)
