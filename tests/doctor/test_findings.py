"""Each cause is provoked by one change to the facts of a healthy machine, which has none."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.doctor.facts import AskedFacts, ClassFacts, DrafterFacts, Facts, Gpu, LedgerFacts, SecondFacts
from edgespec.doctor.findings import CAUSES, findings
from edgespec.doctor.measured import curve_at
from edgespec.events import Notice
from edgespec.spec.cost import CostTable
from edgespec.spec.policy import Reason
from tests.doctor.cases import FLAT, HEALTHY, SETTINGS, STEEP

WISHES, MODEL, MACHINE, USED = HEALTHY.wishes, HEALTHY.model, HEALTHY.machine, HEALTHY.settings
EXACT = replace(WISHES, exact=True)


def asked(*rounds: tuple[Reason, int], notices: tuple[Notice, ...] = ()) -> AskedFacts:
    return AskedFacts(40, 100, 60, 40, 90.0, rounds, notices)


def noticed(code: str, settings: LlamaSettings = SETTINGS) -> Facts:
    return replace(HEALTHY, settings=replace(USED, settings=settings, notices=(Notice(code, "it was so"),)))


NO_GUESSES = (Reason.NO_MATCH, 90), (Reason.DRAFTED, 10)
DOUBTFUL = (Reason.NOT_WORTH_IT, 30), (Reason.DRAFTED, 5), (Reason.NO_MATCH, 30)
FULL = replace(HEALTHY.settings, settings=replace(SETTINGS, n_ctx=144))
RING = replace(HEALTHY.settings, settings=SETTINGS.windowed())
UNTUNED = replace(HEALTHY, curve=None, settings=replace(USED, measured_on=""))
NO_BUFFERS = replace(SETTINGS, extra_buffers=False)
DIED = ("flash attention off, 2 threads died: SIGSEGV",)
TWIN_DIED = replace(USED, settings=NO_BUFFERS, twin_died=DIED[0])
NARROW = CostTable((256,), (1,), ((0.010,),))
DEAR = CostTable((256,), (1, 2, 4), ((0.010, 0.01999, 0.044),))
PRICED, FOUND = ClassFacts((1,), True, 1.95), ClassFacts((1, 2, 3), False)
CRAMPED = replace(RING, measured_on="2026-01-02T03:04")

# code, does it stop drafting, facts, a value that the evidence must name
PROVOKED: list[tuple[str, bool, Facts, str]] = [
    ("draft-off", True, replace(HEALTHY, wishes=replace(WISHES, draft="off", draft_from="--draft")), "--draft"),
    ("draft-off", False, replace(HEALTHY, wishes=replace(WISHES, off_for=("for 'chat' in config.toml",))), "chat"),
    ("no-drafter", True, replace(HEALTHY, drafters=()), "auto"),
    ("no-rollback", True, replace(HEALTHY, model=replace(MODEL, can_rollback=False, architecture="mamba")), "mamba"),
    ("short-answer", True, replace(HEALTHY, wishes=replace(WISHES, max_tokens=1)), "room for 0"),
    ("short-answer", False, replace(HEALTHY, wishes=replace(WISHES, max_tokens=3)), "room for 2"),
    ("limit", False, replace(HEALTHY, settings=FULL), "140 of 144"),
    ("limit", True, replace(HEALTHY, wishes=replace(WISHES, context=4096), asked=None), "4096 of 4096"),
    (
        "windowed-exact",
        True,
        replace(HEALTHY, wishes=EXACT, settings=RING, model=replace(MODEL, sliding_window=512)),
        "512",
    ),
    ("narrow-class", True, replace(HEALTHY, wishes=EXACT, width_class=PRICED), "2 rows take 1.95 times as long as 1"),
    ("narrow-class", True, replace(HEALTHY, wishes=EXACT, width_class=ClassFacts((1,), False)), "at most 0"),
    ("narrow-class", False, replace(HEALTHY, wishes=EXACT, width_class=FOUND), "1, 2, 3: at most 2"),
    ("not-tuned", True, replace(UNTUNED, wishes=WISHES), "no tuning"),
    ("not-tuned", True, replace(HEALTHY, curve=None), "of 2026-01-02 03:04"),
    (
        "not-tuned",
        True,
        replace(HEALTHY, curve=None, settings=CRAMPED, model=replace(MODEL, sliding_window=512)),
        "512 tokens per window, 8.0 GB free",
    ),
    ("not-tuned", False, replace(UNTUNED, wishes=replace(WISHES, draft="lookup")), "no tuning"),
    ("not-tuned", False, replace(UNTUNED, wishes=replace(WISHES, has_prediction=True)), "no tuning"),
    ("unmeasured", False, replace(HEALTHY, curve=curve_at(replace(FLAT, is_partial=True), 256, ())), "1, 2, 4, 8, 16"),
    ("unmeasured", True, replace(HEALTHY, curve=curve_at(NARROW, 256, ())), "widths: 1"),
    ("partly-tuned", False, replace(HEALTHY, settings=replace(USED, cut_short=True)), "9 settings"),
    ("steep-curve", True, replace(HEALTHY, curve=curve_at(STEEP, 256, ())), "2 rows, takes 2.00"),
    ("steep-curve", False, replace(HEALTHY, curve=curve_at(DEAR, 256, ())), "takes 2.00 plain passes and pays from"),
    ("low-acceptance", False, replace(HEALTHY, drafters=(DrafterFacts("lookup", 80, 0.03),)), "3% of 80"),
    ("ledger", False, replace(HEALTHY, ledger=LedgerFacts(0.3, 0.0001)), "300 ms lost"),
    ("no-match", False, replace(HEALTHY, asked=asked(*NO_GUESSES)), "90 of 100"),
    ("not-worth-it", False, replace(HEALTHY, asked=asked(*DOUBTFUL)), "30 of 35"),
    ("draft-late", False, replace(HEALTHY, asked=asked(notices=(Notice("draft-late", "too slow"),))), "too slow"),
    ("cores-taken", False, replace(HEALTHY, machine=replace(MACHINE, n_cores=2, others=1.0)), "1.0 of 2"),
    ("cores-taken", False, replace(HEALTHY, asked=asked(notices=(Notice("cores-taken", "1.9 of 2"),))), "1.9 of 2"),
    ("slow-now", False, replace(HEALTHY, load=1.8), "1.80"),
    ("settings-died", False, noticed("settings-died", NO_BUFFERS), "buffers are off"),
    (
        "settings-died",
        False,
        replace(HEALTHY, settings=replace(USED, settings=NO_BUFFERS, twin_died=DIED[0])),
        "SIGSEGV",
    ),
    ("windowed-cache", False, noticed("windowed-cache", SETTINGS.windowed()), "8.0 GB"),
    ("no-gpu-device", False, replace(HEALTHY, machine=replace(MACHINE, gpu=Gpu.NO_DEVICE)), "llama-cpp-python"),
    ("second-not-measured", False, replace(HEALTHY, second=SecondFacts("little")), "little"),
    (
        "second-does-not-pay",
        False,
        replace(HEALTHY, second=SecondFacts("little", "plain", 1.0, 0.7, ("serial gives 0.5x plain",))),
        "0.5x plain",
    ),
]


@pytest.mark.parametrize(("code", "stops", "facts", "value"), PROVOKED, ids=[one[0] for one in PROVOKED])
def test_a_cause_is_found_and_nothing_else(code: str, stops: bool, facts: Facts, value: str) -> None:
    (found,) = findings(facts)
    assert (found.code, found.stops) == (code, stops)
    assert value in found.evidence
    assert all((found.message, found.evidence, found.remedy))


def test_a_healthy_machine_has_none() -> None:
    assert findings(HEALTHY) == []
    assert findings(replace(HEALTHY, asked=None, load=None, ledger=None)) == []
    assert findings(replace(HEALTHY, wishes=EXACT, settings=RING)) == []  # no sliding window to cache in a ring
    assert findings(replace(HEALTHY, settings=replace(USED, died=DIED))) == []  # a candidate that nobody needs
    slower = replace(USED, settings=NO_BUFFERS, died=DIED)  # extra buffers lost by speed
    assert findings(replace(HEALTHY, settings=slower)) == []


def test_every_cause_is_provoked_and_its_code_fit_for_programs() -> None:
    provoking = {cause for cause in CAUSES for _, _, facts, _ in PROVOKED if cause(facts) is not None}
    assert provoking == set(CAUSES)
    assert len({code for code, *_ in PROVOKED}) >= 8
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code, *_ in PROVOKED)


def test_what_stops_drafting_comes_first() -> None:
    facts = replace(HEALTHY, load=2.0, wishes=replace(WISHES, draft="off"), model=replace(MODEL, can_rollback=False))
    assert [one.code for one in findings(facts)] == ["draft-off", "no-rollback", "slow-now"]


def test_a_prediction_is_drafted_from_whatever_else_is_off() -> None:
    given = (DrafterFacts("given", 0, 0.9),)
    facts = replace(HEALTHY, wishes=replace(WISHES, draft="off", has_prediction=True), drafters=given)
    assert findings(facts) == []
    steep = replace(facts, curve=curve_at(STEEP, 256, ()))
    assert [(one.code, one.stops) for one in findings(steep)] == [("steep-curve", True)]  # it could not pay either
    dear = replace(facts, curve=curve_at(DEAR, 256, ()))
    (limit,) = findings(dear)
    assert (limit.code, limit.stops) == ("steep-curve", False)
    assert "--predict" not in limit.remedy


def test_an_exact_class_without_measured_widths_is_unmeasured() -> None:
    facts = replace(HEALTHY, wishes=EXACT, width_class=ClassFacts((5, 9), False), curve=curve_at(FLAT, 256, (5, 9)))
    assert [one.code for one in findings(facts)] == ["unmeasured"]


def test_a_class_of_one_row_is_a_price_where_tuning_chose_it_and_tuning_is_no_remedy() -> None:
    (priced,) = findings(replace(HEALTHY, wishes=EXACT, width_class=PRICED))
    assert "costs them least" in priced.message
    assert "not even a predicted text" in priced.remedy
    (found,) = findings(replace(HEALTHY, wishes=EXACT, width_class=FOUND))
    assert "few pass widths" in found.message
    assert not any("tune" in one.remedy for one in (priced, found))
    no_room = asked((Reason.DRAFTED, 9), notices=(Notice("no-probe", "exact answers are decoded plainly: no memory"),))
    (unprobed,) = findings(replace(HEALTHY, wishes=EXACT, width_class=ClassFacts((1,), False), asked=no_room))
    assert "no memory" in unprobed.message


def test_a_class_of_one_row_is_no_cause_of_its_own_where_nothing_can_be_taken_back() -> None:
    one_row = ClassFacts((1,), False)
    running = replace(HEALTHY, wishes=EXACT, width_class=one_row, model=replace(MODEL, can_rollback=False))
    ring = replace(running, settings=RING, model=replace(MODEL, sliding_window=512))
    assert [one.code for one in findings(running)] == ["no-rollback"]
    assert [one.code for one in findings(ring)] == ["windowed-exact"]


def test_a_steep_curve_says_how_sure_a_guess_must_be() -> None:
    (dear,) = findings(replace(HEALTHY, curve=curve_at(DEAR, 256, ())))
    assert "surer than 99.90%" in dear.message
    (never,) = findings(replace(HEALTHY, curve=curve_at(STEEP, 256, ())))
    assert "not even perfect guesses" in never.message
    assert "--predict" not in never.remedy


def test_what_tuning_cannot_mend_is_not_sent_to_it() -> None:
    (cramped,) = findings(replace(HEALTHY, curve=None, settings=CRAMPED))
    assert "edgespec tune" not in cramped.remedy
    assert "--ctx-size" in cramped.remedy
    (untuned,) = findings(UNTUNED)
    assert "not kept" in untuned.remedy


def test_a_few_steps_are_no_evidence() -> None:
    assert findings(replace(HEALTHY, drafters=(DrafterFacts("lookup", 5, 0.0),))) == []


def test_cores_that_are_left_over_may_be_taken() -> None:
    assert findings(replace(HEALTHY, machine=replace(MACHINE, n_cores=4, others=2.0))) == []
    assert findings(replace(HEALTHY, machine=replace(MACHINE, others=None))) == []
