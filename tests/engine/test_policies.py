from __future__ import annotations

from pathlib import Path

from edgespec.choice import DraftChoice
from edgespec.engine.policies import Policies
from edgespec.engine.profiles import Profiles
from edgespec.records import Records
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.cost import CostTable
from edgespec.spec.ledger import Entry
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.tree import chain

AUTO, LOOKUP, OFF = DraftChoice.AUTO, DraftChoice.LOOKUP, DraftChoice.OFF
TABLE = CostTable((0,), (1, 2, 4), ((0.010, 0.015, 0.020),))
SLOW = CostTable((0,), (1, 2), ((0.020, 0.040),))


def test_each_choice_has_a_policy_of_its_own_and_keeps_it() -> None:
    policies = Policies(TABLE)
    auto, lookup = policies.of({AUTO}), policies.of({LOOKUP})
    assert isinstance(auto, MeasuredPolicy)
    assert auto is not lookup
    assert policies.of({AUTO}) is auto
    assert policies.of({AUTO, LOOKUP}) is auto


def test_a_batch_without_drafters_is_nobodys_experience() -> None:
    plain = Policies(TABLE).of(())
    assert plain == FixedPolicy(max_nodes=0)
    assert plain.t1_seconds == 0.0


def test_without_a_table_a_named_drafter_drafts_a_fixed_number_and_nothing_is_explained() -> None:
    policies = Policies()
    assert policies.of({LOOKUP}) == FixedPolicy()
    assert not policies.decides
    assert policies.explain(AUTO, 100) is None


def test_new_prices_reach_every_policy_and_those_made_later() -> None:
    policies = Policies(TABLE)
    auto = policies.of({AUTO})
    assert auto.t1_seconds == 0.010
    policies.reprice(SLOW)
    assert auto.t1_seconds == policies.of({LOOKUP}).t1_seconds == 0.020


def test_what_was_measured_of_a_drafter_counts_until_an_earlier_run_knows_better(tmp_path: Path) -> None:
    def experience() -> Acceptance:
        seen = Acceptance()
        for _ in range(20):
            seen.profile("draft").observe(0, 0.9, right=True)
        return seen

    store = Profiles("a target", Records(tmp_path / "profiles.json"), lambda _notice: None)
    known = Acceptance()
    for _ in range(50):
        known.profile("draft").observe(0, 0.9, right=False)
    store.save(AUTO, known)
    auto, lookup = (Policies(TABLE, store=store, experience=experience).of({one}) for one in (AUTO, LOOKUP))
    assert isinstance(auto, MeasuredPolicy)
    assert isinstance(lookup, MeasuredPolicy)
    assert auto.acceptance.profile("draft").acceptance < 0.5 < lookup.acceptance.profile("draft").acceptance


def test_a_table_that_comes_later_ends_the_guessing() -> None:
    policies = Policies()
    policies.reprice(TABLE)
    assert policies.decides
    assert isinstance(policies.of({AUTO}), MeasuredPolicy)


def test_the_explanation_is_that_of_the_choice() -> None:
    policies = Policies(TABLE)
    explanation = policies.explain(AUTO, 0)
    assert explanation is not None
    assert [line.rows for line in explanation.break_even] == [2, 4]
    assert policies.explain(OFF, 0) is None
    assert policies.of({LOOKUP}) is not policies.of({AUTO})


def test_the_journal_names_the_choice_of_every_entry() -> None:
    found: list[tuple[DraftChoice, Entry]] = []
    policies = Policies(TABLE, lambda choice, entry: found.append((choice, entry)))
    policies.of({AUTO}).charge(0.25)
    policies.of({LOOKUP}).charge(0.5)
    assert [(choice, entry.seconds) for choice, entry in found] == [(AUTO, 0.25), (LOOKUP, 0.5)]


def test_a_callers_own_policy_decides_everything() -> None:
    own = FixedPolicy(max_nodes=2)
    policies = Policies(own=own)
    assert policies.of({AUTO}) is policies.of(()) is own
    assert policies.decides


def test_what_was_learnt_is_there_when_the_engine_is_opened_again(tmp_path: Path) -> None:
    def opened() -> Policies:
        return Policies(TABLE, store=Profiles("model", Records(tmp_path / "profiles.json"), lambda _: None))

    first = opened()
    policy = first.of({AUTO})
    assert isinstance(policy, MeasuredPolicy)
    for _ in range(30):
        _, watch = policy.acceptance.calibrate(0, "lookup", 0, chain([5], [0.6]), 0)
        policy.acceptance.score(0, "lookup", watch, 0, [6])
    unlearnt = Policies(TABLE).of({AUTO})
    first.close()

    again = opened()
    second, other = again.of({AUTO}), again.of({LOOKUP})
    assert isinstance(second, MeasuredPolicy)
    assert isinstance(other, MeasuredPolicy)
    assert isinstance(unlearnt, MeasuredPolicy)
    believed = [one.acceptance.survival(1, "lookup", chain([5], [0.6]))[0] for one in (second, unlearnt, other)]
    assert believed[0] < 0.8 * believed[1]
    assert believed[1] == believed[2]


def test_an_engine_without_a_store_keeps_nothing() -> None:
    policies = Policies(TABLE)
    policies.of({AUTO})
    policies.close()
    assert Policies(TABLE).explain(AUTO, 0) is not None
