"""Each cause is provoked by one change to the facts of a healthy machine, which has none."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.doctor.facts import AskedFacts, DrafterFacts, Facts, Gpu, LedgerFacts
from edgespec.doctor.findings import CAUSES, findings
from edgespec.doctor.gather import curve_at
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
NARROW = CostTable((256,), (1,), ((0.010,),))

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
    ("narrow-class", True, replace(HEALTHY, wishes=EXACT, width_class=(1,)), "at most 0"),
    ("narrow-class", False, replace(HEALTHY, wishes=EXACT, width_class=(1, 2, 3)), "1, 2, 3: at most 2"),
    ("not-tuned", True, replace(UNTUNED, wishes=WISHES), "no tuning"),
    ("not-tuned", True, replace(HEALTHY, curve=None), "of 2026-01-02T03:04"),
    ("not-tuned", False, replace(UNTUNED, wishes=replace(WISHES, draft="lookup")), "no tuning"),
    ("not-tuned", False, replace(UNTUNED, wishes=replace(WISHES, has_prediction=True)), "no tuning"),
    ("unmeasured", False, replace(HEALTHY, curve=curve_at(replace(FLAT, is_partial=True), 256, ())), "1, 2, 4, 8, 16"),
    ("unmeasured", True, replace(HEALTHY, curve=curve_at(NARROW, 256, ())), "widths: 1"),
    ("partly-tuned", False, replace(HEALTHY, settings=replace(USED, cut_short=True)), "9 settings"),
    ("steep-curve", True, replace(HEALTHY, curve=curve_at(STEEP, 256, ())), "2 rows, takes 2.00"),
    ("low-acceptance", False, replace(HEALTHY, drafters=(DrafterFacts("lookup", 80, 0.03),)), "3% of 80"),
    ("ledger", False, replace(HEALTHY, ledger=LedgerFacts(0.3, 0.0001)), "300 ms lost"),
    ("no-match", False, replace(HEALTHY, asked=asked(*NO_GUESSES)), "90 of 100"),
    ("not-worth-it", False, replace(HEALTHY, asked=asked(*DOUBTFUL)), "30 of 35"),
    ("draft-late", False, replace(HEALTHY, asked=asked(notices=(Notice("draft-late", "too slow"),))), "too slow"),
    ("cores-taken", False, replace(HEALTHY, machine=replace(MACHINE, n_cores=2, others=1.0)), "1.0 of 2"),
    ("cores-taken", False, replace(HEALTHY, asked=asked(notices=(Notice("cores-taken", "1.9 of 2"),))), "1.9 of 2"),
    ("slow-now", False, replace(HEALTHY, load=1.8), "1.80"),
    ("settings-died", False, noticed("settings-died", NO_BUFFERS), "buffers are off"),
    ("settings-died", False, replace(HEALTHY, settings=replace(USED, settings=NO_BUFFERS, died=DIED)), "SIGSEGV"),
    ("windowed-cache", False, noticed("windowed-cache", SETTINGS.windowed()), "8.0 GB"),
    ("no-gpu-device", False, replace(HEALTHY, machine=replace(MACHINE, gpu=Gpu.NO_DEVICE)), "llama-cpp-python"),
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
    assert [(one.code, one.stops) for one in findings(steep)] == [("steep-curve", False)]


def test_an_exact_class_without_measured_widths_is_unmeasured() -> None:
    facts = replace(HEALTHY, wishes=EXACT, width_class=(5, 9), curve=curve_at(FLAT, 256, (5, 9)))
    assert [one.code for one in findings(facts)] == ["unmeasured"]


def test_a_few_steps_are_no_evidence() -> None:
    assert findings(replace(HEALTHY, drafters=(DrafterFacts("lookup", 5, 0.0),))) == []


def test_cores_that_are_left_over_may_be_taken() -> None:
    assert findings(replace(HEALTHY, machine=replace(MACHINE, n_cores=4, others=2.0))) == []
    assert findings(replace(HEALTHY, machine=replace(MACHINE, others=None))) == []
