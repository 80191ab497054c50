from __future__ import annotations

import json
from dataclasses import replace

from edgespec.doctor.facts import ChoiceFacts, ClassFacts, DrafterFacts, Facts, Gpu, Origin
from edgespec.doctor.findings import findings
from edgespec.doctor.measured import curve_at
from edgespec.doctor.report import chosen, to_fields, to_lines
from edgespec.engine.pace import PaceStatus
from edgespec.spec.cost import CostTable
from tests.doctor.cases import FLAT, HEALTHY, LONG, SETTINGS, SHORT, STEEP

BARE = replace(
    HEALTHY,
    settings=replace(HEALTHY.settings, origin=Origin.PROBED, measured_on=""),
    curve=None,
    load=None,
    ledger=None,
    asked=None,
    width_class=None,
    drafters=(DrafterFacts("lookup", 0, 0.6),),
)


def text(facts: Facts) -> str:
    return "\n".join(to_lines(facts, findings(facts)))


def test_the_object_has_what_programs_rely_on() -> None:
    facts = replace(HEALTHY, load=2.0)
    fields = json.loads(json.dumps(to_fields(facts, findings(facts)), allow_nan=False))
    assert fields["drafter"] == "lookup"
    (reason,) = fields["reasons"]
    assert set(reason) >= {"code", "message", "evidence", "remedy"}
    assert set(fields) >= {"model", "machine", "settings", "table", "break_even", "drafters", "load"}
    assert fields["table"]["seconds"] == {"1": 0.01, "2": 0.011, "4": 0.012, "8": 0.014, "16": 0.02}
    assert [one["rows"] for one in fields["break_even"]] == [2, 4, 8, 16]
    assert fields["settings"]["origin"] == "tuned"
    assert fields["settings"]["flash_attention"] == "off"
    assert fields["asked"]["rounds"] == {"drafted": 30, "no-match": 20, "refresh": 2}
    assert fields["drafters"][0]["speedup"] > 1.0


def test_what_never_pays_is_null_and_not_infinite() -> None:
    slower = replace(FLAT, seconds=((0.01, 0.05, 0.05, 0.09, 0.2),))
    facts = replace(HEALTHY, curve=curve_at(slower, 256, ()))
    fields = json.loads(json.dumps(to_fields(facts, findings(facts)), allow_nan=False))
    assert fields["break_even"][0]["acceptance"] is None
    assert fields["drafter"] == "off"
    assert "never" in text(facts)


def test_without_a_tuning_there_is_no_table() -> None:
    fields = json.loads(json.dumps(to_fields(BARE, findings(BARE))))
    assert (fields["drafter"], fields["table"], fields["break_even"], fields["asked"]) == ("off", None, [], None)
    said = text(BARE)
    assert "not tuned yet" in said
    assert "off: plain decoding (not-tuned)" in said
    assert "pays from" not in said


def test_the_lines_say_what_is_used_and_why() -> None:
    said = text(HEALTHY)
    for part in (
        *("toy, Q4_1, llama, 135M parameters, 97 MB of weights", "/m/toy.gguf", "0.1 of 4 cores", "built for the CPU"),
        *("2 threads, flash attention off", "tuned on 2026-01-02 03:04: 9 settings tried, 1.70 times as fast"),
        *("lookup, wherever it pays", "acceptance 70% (observed over 500 tokens)", "times plain decoding"),
        *("1.02 times as long", "-200 ms lost", "40 of 60 drafted tokens", "rounds: drafted 30, no-match 20"),
        *("a pass at 256 tokens of context", "     2     11.00      1.10   10% acceptance"),
    ):
        assert part in said, part
    assert "what keeps it" not in said


def test_other_machines_and_settings() -> None:
    forced = replace(BARE.settings, origin=Origin.FORCED, forced=("--threads 1",))
    said = text(replace(HEALTHY, settings=forced))
    assert "not tuned yet: safe settings, proven in a child process; forced: --threads 1" in said
    other = replace(HEALTHY, settings=replace(HEALTHY.settings, origin=Origin.PROBED))
    assert "not those of the tuning of 2026-01-02 03:04" in text(other)
    on_gpu = replace(HEALTHY.settings, settings=replace(SETTINGS.on_gpu(), n_threads=1, n_threads_batch=2))
    said = text(replace(HEALTHY, settings=on_gpu, machine=replace(HEALTHY.machine, others=None, gpu=Gpu.USED)))
    for part in ("1 thread (2 for wider passes)", "GPU layers all", "on the GPU", "taken by others: unknown"):
        assert part in said
    exact = replace(HEALTHY, wishes=replace(HEALTHY.wishes, exact=True), curve=curve_at(FLAT, 256, (2, 4, 8, 16)))
    assert "inside the class of exact widths" in text(exact)


def test_the_drafter_is_the_first_possible_one_unless_something_stops_it() -> None:
    both = replace(HEALTHY, drafters=(DrafterFacts("given", 0, 0.9), *HEALTHY.drafters))
    assert chosen(both, []) == "given"
    assert "predicted text, wherever it pays" in text(both)
    steep = replace(HEALTHY, curve=curve_at(STEEP, 256, ()))
    assert chosen(steep, findings(steep)) == "off"
    assert "plain decoding is fastest" in text(steep)
    assert "surer" not in text(steep)
    dear = replace(HEALTHY, curve=curve_at(CostTable((256,), (1, 2), ((0.010, 0.0195),)), 256, ()))
    assert chosen(dear, findings(dear)) == "lookup"
    assert "drafts only where it is surer than 95%" in text(dear)
    assert "(no drafter)" in "\n".join(to_lines(replace(HEALTHY, drafters=()), []))


def test_settings_for_other_lengths_are_listed() -> None:
    assert "by length" not in text(HEALTHY)
    choices = (ChoiceFacts(362, SHORT), ChoiceFacts(None, LONG))
    facts = replace(HEALTHY, settings=replace(HEALTHY.settings, settings=SHORT, choices=choices))
    said = text(facts)
    assert "for a text of 256 tokens: 1 thread, flash attention on" in said
    assert "by length up to 362 tokens: flash attention on, 1 thread\n" in said
    assert "          above: flash attention off, 1 thread\n" in said
    fields = json.loads(json.dumps(to_fields(facts, [])))
    assert [(one["up_to"], one["settings"]["flash_attention"]) for one in fields["choices"]] == [
        (362, "on"),
        (None, "off"),
    ]


def test_what_was_not_measured_is_left_out() -> None:
    said = text(replace(HEALTHY, settings=replace(HEALTHY.settings, speedup=None)))
    assert "9 settings tried\n" in said
    assert "defaults" not in said


def test_an_answer_with_other_settings_is_told() -> None:
    assert HEALTHY.asked is not None
    own = replace(HEALTHY, asked=replace(HEALTHY.asked, settings=SETTINGS))
    other = replace(HEALTHY, asked=replace(HEALTHY.asked, settings=SHORT))
    assert "other settings" not in text(own)
    assert "it ran with other settings, for its own length: flash attention on, 1 thread" in text(other)
    assert json.loads(json.dumps(to_fields(other, [])))["asked"]["settings"]["flash_attention"] == "on"


def test_the_threads_of_an_engine() -> None:
    facts = replace(HEALTHY, pace=PaceStatus(1, 2, 4, 1.6, 3, 5))
    assert "threads   1 of 2 at the end; others took 1.6 of 4 cores; steps down: 5, passes given up: 3" in text(facts)
    unknown = replace(HEALTHY, pace=PaceStatus(2, 2, 0, None, 0, 0))
    assert "threads   2 of 2 at the end; steps down: 0" in text(unknown)
    assert to_fields(facts, [])["pace"] == {
        "n_threads": 1,
        "n_wanted": 2,
        "n_cores": 4,
        "taken": 1.6,
        "n_aborted": 3,
        "n_steps_down": 5,
    }
    assert to_fields(HEALTHY, [])["pace"] is None


def test_a_class_of_exact_widths_is_only_told_when_it_is_known() -> None:
    wishes = replace(HEALTHY.wishes, exact=True)
    unknown = text(replace(HEALTHY, wishes=wishes, width_class=None))
    assert "is found at the first exact answer" in unknown
    assert "inside the class" not in unknown
    plain = text(replace(HEALTHY, wishes=wishes, width_class=ClassFacts((1,), True, 1.9)))
    assert "exact     passes of 1 row, which is plain decoding" in plain
    assert "exact     passes of 1, 2, 4, 8, 16 rows" in text(replace(HEALTHY, wishes=wishes))
    assert "exact  " not in text(HEALTHY)


def test_each_reason_has_its_sentence_evidence_and_remedy() -> None:
    facts = replace(HEALTHY, load=2.0)
    (finding,) = findings(facts)
    lines = to_lines(facts, [finding])
    assert lines[-4:] == [
        "what keeps it from drafting more:",
        f"  slow-now: {finding.message}",
        f"      {finding.evidence}",
        f"      -> {finding.remedy}",
    ]
