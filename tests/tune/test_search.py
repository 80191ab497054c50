"""Whole searches over fake children whose passes cost what a formula says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from edgespec.backend.settings import SPLIT, FlashAttention, KvType
from edgespec.errors import EngineFailure
from edgespec.tune import children, plan, tuner
from edgespec.tune.result import LATE, SLOWER
from edgespec.tune.store import Forced, stored_tuning
from edgespec.tune.tuning import Tuning
from tests.tune.bench import SITE, Workbench
from tests.tune.fake_child import N_LAYERS, SLOWNESS, name_of, pass_seconds

# Half of the grid, where the other half has nothing to add.
SMALL = Forced(threads=2, extra_buffers=True)


def found(tuning: Tuning | None) -> Tuning:
    assert tuning is not None
    return tuning


def fates(tuning: Tuning) -> dict[str, set[str]]:
    told: dict[str, set[str]] = {}
    for one in tuning.candidates:
        told.setdefault(name_of(one.settings), set()).add(one.fate)
    return told


def names(tuning: Tuning) -> list[str]:
    return [name_of(one.tuned.settings) for one in tuning.choices]


@pytest.fixture(autouse=True)
def _nothing_spins(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread of a fake child has to fall asleep before the next one is timed."""
    monkeypatch.setattr(children, "SETTLE_SECONDS", 0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workbench, Tuning]:
    """A search over the whole grid that nothing disturbs."""
    bench = Workbench(tmp_path_factory.mktemp("whole"))
    return bench, found(bench.run())


def test_the_whole_grid(whole: tuple[Workbench, Tuning]) -> None:
    bench, tuning = whole
    assert tuning.contexts == (128, 1024)
    # On: -0.001 + 0.000006 * 128 < 0 at the short context, +0.005 at the long one.
    assert [(one.up_to, name_of(one.tuned.settings)) for one in tuning.choices] == [(362, "on"), (1024, "off")]
    for choice in tuning.choices:
        settings, table = choice.tuned.settings, choice.tuned.table
        assert (settings.n_threads, settings.batch_threads, settings.prefill_chunk) == (2, 2, 256)
        assert table.widths == plan.FULL
        assert choice.tuned.alone.widths == plan.COARSE
        for context, row, alone in zip(table.contexts, table.seconds, choice.tuned.alone.seconds, strict=True):
            assert row == pytest.approx([pass_seconds(settings, 2, context, width) for width in plan.FULL])
            assert alone == pytest.approx([pass_seconds(settings, 1, context, width) for width in plan.COARSE])
    assert tuning.plain_speedup_over_defaults == pytest.approx(0.010 / (0.009768 / 1.5))
    assert tuning.width_class == (2, 4, 8, 16)
    assert not tuning.is_partial
    assert not bench.said
    assert tuning.defaults in [one.settings for one in tuning.candidates]
    assert bench.progress[-1].done == 1.0
    done = [one.done for one in bench.progress]
    assert done == sorted(done)


def test_no_setting_of_the_grid_is_faster_than_the_chosen_one(whole: tuple[Workbench, Tuning]) -> None:
    tuning = whole[1]
    for i, context in enumerate(tuning.contexts):
        chosen = tuning.for_length(context).settings
        best = min(
            pass_seconds(one.settings, one.settings.n_threads, context, 1)
            for one in tuning.candidates
            if one.settings.kv_type is KvType.F16
        )
        assert pass_seconds(chosen, chosen.n_threads, context, 1) <= 1.05 * best
        assert min(one.plain_seconds[i] for one in tuning.candidates if len(one.plain_seconds) > i) <= best + 1e-9


def test_who_is_clearly_slower_is_left_after_its_first_passes(whole: tuple[Workbench, Tuning]) -> None:
    bench, tuning = whole
    bare = [one for one in tuning.candidates if not one.settings.extra_buffers]
    assert {one.fate for one in bare} == {SLOWER}
    assert {len(one.plain_seconds) for one in bare} == {1}
    asked = Counter(note.split()[0] for note in bench.notes() if " pass " in note)
    assert asked["off-bare"] <= 8
    assert asked["off"] > 100


def test_the_defaults_are_timed_at_every_context_however_slow(whole: tuple[Workbench, Tuning]) -> None:
    tuning = whole[1]
    usual = next(one for one in tuning.candidates if one.settings == tuning.defaults)
    assert len(usual.plain_seconds) == 2
    assert usual.fate == ""


def test_finalists_take_turns(whole: tuple[Workbench, Tuning]) -> None:
    """Machines warm up and cool down, so no finalist is measured in one go."""
    bench = whole[0]
    wide = [note.split()[0] for note in bench.notes() if " pass 13 " in note and note.endswith(" 1024")]
    assert len(wide) >= 2 * plan.SWEEPS
    assert len(set(wide[:3])) >= 2
    assert wide[: len(set(wide))] == wide[len(set(wide)) : 2 * len(set(wide))]


def test_without_memory_for_two_children_each_is_visited_by_itself(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, most_children=1)
    tuning = found(bench.run())
    assert names(tuning) == ["on", "off"]
    wide = [note.split()[0] for note in bench.notes() if " pass 13 " in note and note.endswith(" 1024")]
    assert len([1 for before, after in pairwise(wide) if before != after]) < len(set(wide))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("dies@at-start", "died: out of tiles"),
        ("dies@at-pass", "died: out of tiles"),
        ("dies@at-reading", "died: out of tiles"),
        ("refuses@at-start", "refused: no memory for it"),
        ("refuses@at-pass", "refused: no memory for it"),
        ("babbles@at-start", "failed: no report: 'llama says hello'"),
    ],
)
def test_a_failing_setting_costs_only_itself(tmp_path: Path, how: str, said: str) -> None:
    tuning = found(Workbench(tmp_path, rules=(f"off={how}",), forced=SMALL).run())
    assert fates(tuning)["off"] == {said}
    assert set(names(tuning)) <= {"on", "auto"}
    assert not tuning.is_partial
    assert tuning.plain_speedup_over_defaults == 0.0  # the defaults are one of those that failed


def test_when_all_finalists_die_the_slower_ones_are_looked_at(tmp_path: Path) -> None:
    rules = tuple(f"{name}=dies@at-wide" for name in ("on", "off", "auto"))
    tuning = found(Workbench(tmp_path, rules=rules).run())
    assert {one.tuned.settings.extra_buffers for one in tuning.choices} == {False}
    assert tuning.choices[0].tuned.table.widths == plan.FULL


def test_when_everything_fails(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, rules=("all=dies@at-start",))
    assert bench.run() is None
    assert [notice.code for notice in bench.said] == ["not-tuned"]
    assert "died: out of tiles" in bench.said[0].message


def test_the_cap_is_kept_and_marks_the_tuning_partial(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, step=0.02)
    tuning = found(bench.run(cap_seconds=6.0))
    assert bench.ticks.now <= 8.0
    assert tuning.is_partial
    assert LATE in {one.fate for one in tuning.candidates} or tuning.choices[0].tuned.table.is_partial
    for choice in tuning.choices:
        assert 1 in choice.tuned.table.widths
        assert set(choice.tuned.table.widths) <= set(plan.FULL)


def test_a_slow_model_that_is_alone_in_memory(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, rules=("all=slow",), most_children=1, times_count=True)
    tuning = found(bench.run(cap_seconds=60.0))
    longest_pass = SLOWNESS * pass_seconds(tuning.defaults, 1, 128, 32)
    assert bench.ticks.now <= 60.0 + longest_pass
    assert tuning.is_partial
    for choice in tuning.choices:
        assert {1, 2, 4} <= set(choice.tuned.table.widths)
        assert choice.tuned.settings.extra_buffers
        assert choice.tuned.settings.n_threads == 2


def test_more_time_fills_the_table_of_a_slow_model(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, rules=("all=slow",), most_children=1, times_count=True)
    tuning = found(bench.run(cap_seconds=300.0))
    assert tuning.is_partial
    for _ in range(6):
        if not tuning.is_partial:
            break
        tuning = found(bench.run(cap_seconds=300.0))
    assert not tuning.is_partial
    assert {choice.tuned.table.widths for choice in tuning.choices} == {plan.FULL}


def test_a_cap_too_short_for_anything(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, step=1.0)
    assert bench.run(cap_seconds=1.0) is None
    assert [notice.code for notice in bench.said] == ["not-tuned"]


def test_a_stopped_tuning_goes_on_where_it_was(tmp_path: Path, whole: tuple[Workbench, Tuning]) -> None:
    straight, reference = whole
    bench = Workbench(tmp_path)
    for stop_after in range(200, 4000, 200):
        before = len(bench.notes())
        tuning = bench.run(stop_after=stop_after)
        if tuning is not None:
            break
        assert len(bench.notes()) - before <= 201
    assert replace(found(tuning), measured_on="") == replace(reference, measured_on="")
    passes = sum(" pass " in note for note in bench.notes())
    assert passes <= 1.5 * sum(" pass " in note for note in straight.notes())


def test_a_finished_tuning_asked_for_again_begins_anew(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, forced=SMALL)
    bench.run()
    n_notes = len(bench.notes())
    bench.run()
    assert len(bench.notes()) == 2 * n_notes


def test_a_partial_one_asked_for_again_goes_on(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, step=0.02)
    first = found(bench.run(cap_seconds=6.0))
    second = found(bench.run(cap_seconds=400.0))
    assert (first.is_partial, second.is_partial) == (True, False)
    assert set(second.choices[0].tuned.table.widths) == set(plan.FULL)


def test_times_taken_beside_busy_programs_are_shown_and_not_kept(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, others=lambda _: 0.8, forced=SMALL, step=0.05)
    assert bench.run(cap_seconds=300.0) is not None
    assert [notice.code for notice in bench.said] == ["tuned-under-load"]
    assert "other programs used 0.8 cores' worth" in bench.said[0].message
    assert stored_tuning(bench.model, "build 1", SMALL, bench.records) is None
    bench.others = lambda _: 0.2
    assert bench.run(cap_seconds=300.0) is not None
    assert stored_tuning(bench.model, "build 1", SMALL, bench.records) is not None


def test_what_was_timed_while_others_were_busy_for_a_while_is_timed_again(tmp_path: Path) -> None:
    """At most a tenth of the cap, in the coarse round and later on; passes take 50 times as long meanwhile."""
    disturbed = ((0.02, 3.0), (8.0, 10.0))

    def others(now: float) -> float:
        return 1.0 if any(begin <= now <= end + 2.5 for begin, end in disturbed) else 0.0

    rules = tuple(f"slowed={begin}:{end}" for begin, end in disturbed)
    bench = Workbench(tmp_path, rules=rules, forced=SMALL, times_count=True, others=others)
    tuning = found(bench.run(cap_seconds=150.0))
    assert bench.said == []
    assert bench.ticks.now > 13.0
    assert names(tuning) == ["on", "off"]
    for choice in tuning.choices:
        for context, row in zip(choice.tuned.table.contexts, choice.tuned.table.seconds, strict=True):
            settings, widths = choice.tuned.settings, choice.tuned.table.widths
            assert row == pytest.approx([pass_seconds(settings, 2, context, width) for width in widths])
    slowest = max(seconds for one in tuning.candidates for seconds in one.plain_seconds)
    assert slowest <= 2.0 * pass_seconds(tuning.defaults, 1, 1024, 1)


def test_the_defaults_are_timed_as_soon_as_there_is_something_to_compare_them_with(tmp_path: Path) -> None:
    """So that a cap which ends everything soon still says how much faster the others are."""
    bench = Workbench(tmp_path, forced=Forced(extra_buffers=False))
    assert bench.run(stop_after=40) is None
    passes = [note.split() for note in bench.notes() if " pass " in note]
    others, usual = passes[: 1 + plan.PLAIN_SAMPLES], passes[1 + plan.PLAIN_SAMPLES : 2 + 2 * plan.PLAIN_SAMPLES]
    assert {tuple(note[:4]) for note in others} == {("off-bare", "pass", "1", "2")}
    assert {tuple(note[:4]) for note in usual} == {("off", "pass", "1", "1")}


def test_a_speed_up_is_told_also_where_the_cap_ends_it_soon(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, forced=Forced(extra_buffers=False), step=0.02)
    for cap_seconds in (2.0, 3.0, 4.0, 6.0):
        tuning = bench.run(cap_seconds=cap_seconds)
        assert tuning is None or tuning.plain_speedup_over_defaults > 0.0


def test_a_number_of_threads_that_hangs_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(children, "PATIENCE_FACTOR", 1.0)
    bench = Workbench(tmp_path, rules=("on=hangs@at-2-threads",), forced=Forced(extra_buffers=True), real_time=True)
    tuning = found(bench.run(cap_seconds=12.0))
    on = {
        (one.settings.n_threads, one.settings.batch_threads): one
        for one in tuning.candidates
        if name_of(one.settings) == "on"
    }
    assert on[1, 1].plain_seconds
    assert "hung" not in on[1, 1].fate
    assert on[2, 2].fate.startswith("hung: no answer")
    assert on[1, 2].fate.startswith("hung: no answer")


def test_with_more_time_longer_contexts_are_begun_anew(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, rules=("all=slow",), most_children=1, times_count=True, forced=SMALL)
    short = found(bench.run(cap_seconds=60.0))
    longer = found(bench.run(cap_seconds=600.0))
    assert longer.contexts[-1] > short.contexts[-1]
    assert not bench.said


def test_on_a_machine_that_is_faster_now_longer_contexts_are_begun_anew(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, rules=("all=slow",), most_children=1, times_count=True, forced=SMALL)
    slow = found(bench.run(cap_seconds=60.0))
    bench.rules = ()
    fast = found(bench.run(cap_seconds=60.0))
    assert slow.is_partial
    assert fast.contexts[-1] > slow.contexts[-1]
    assert {choice.tuned.table.contexts for choice in fast.choices} == {fast.contexts}


def test_a_tuning_without_processes_is_an_error_in_words(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, program="no such program")
    with pytest.raises(EngineFailure, match="cannot start a process to measure in"):
        bench.run()


def test_forced_settings_are_kept(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, forced=Forced(threads=1, extra_buffers=False))
    tuning = found(bench.run())
    for choice in tuning.choices:
        settings = choice.tuned.settings
        assert (settings.n_threads, settings.batch_threads, settings.extra_buffers) == (1, 1, False)
        assert choice.tuned.alone == choice.tuned.table
    assert tuning.plain_speedup_over_defaults < 1.0


def test_a_quantised_cache_is_chosen_only_when_asked_for(tmp_path: Path, whole: tuple[Workbench, Tuning]) -> None:
    shown = next(one for one in whole[1].candidates if one.settings.kv_type is KvType.Q8_0)
    assert shown.plain_seconds[0] == min(one.plain_seconds[0] for one in whole[1].candidates if one.plain_seconds)
    assert {one.tuned.settings.kv_type for one in whole[1].choices} == {KvType.F16}
    tuning = found(Workbench(tmp_path, forced=replace(SMALL, kv_type=KvType.Q8_0)).run())
    assert {one.tuned.settings.kv_type for one in tuning.choices} == {KvType.Q8_0}
    assert {one.tuned.settings.flash_attention for one in tuning.choices} <= {FlashAttention.ON, FlashAttention.AUTO}


def test_a_model_without_rollback_is_measured_at_one_row(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, rules=("all=no-rollback",), forced=SMALL)
    tuning = found(bench.run())
    assert {choice.tuned.table.widths for choice in tuning.choices} == {(1,)}
    assert not tuning.is_partial


def test_without_a_full_comparison_of_every_choice_there_is_no_width_class(tmp_path: Path) -> None:
    tuning = found(Workbench(tmp_path, rules=("off=hurried",), forced=SMALL).run())
    assert names(tuning) == ["on", "off"]
    assert tuning.width_class == ()


def test_a_short_context_is_measured_at_shorter_texts(tmp_path: Path) -> None:
    tuning = found(Workbench(tmp_path, site=replace(SITE, n_ctx=320), forced=SMALL).run())
    assert tuning.contexts == (64, 256)


def test_a_damaged_record_is_measured_anew(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, forced=SMALL)
    bench.records.path.write_text("{]")
    assert bench.run() is not None
    assert [notice.code for notice in bench.said] == ["records-rebuilt"]


def test_children_end_with_the_tuning_also_when_a_callback_raises(tmp_path: Path) -> None:
    bench = Workbench(tmp_path)

    class Full(Exception):
        pass

    class Bar(list[object]):
        def append(self, now: object) -> None:
            super().append(now)
            if len(self) > 3:
                raise Full

    bench.progress = Bar()  # type: ignore[assignment]
    with pytest.raises(Full):
        bench.run()
    assert bench.records.path.exists()


# -- GPUs -------------------------------------------------------------------------------------------------------------

FAST_THREADS = Forced(threads=2)


def test_of_two_gpus_the_faster_one_is_found(tmp_path: Path) -> None:
    site = replace(SITE, has_gpu=True, gpu_bytes=(24 << 30, 8 << 30), n_layers=N_LAYERS, needed_bytes=4 << 30)
    tuning = found(Workbench(tmp_path, site=site, forced=FAST_THREADS).run())
    assert {(one.tuned.settings.n_gpu_layers, one.tuned.settings.main_gpu) for one in tuning.choices} == {(-1, 1)}
    seen = {(one.settings.n_gpu_layers, one.settings.main_gpu) for one in tuning.candidates if one.plain_seconds}
    assert seen == {(-1, 0), (-1, 1), (-1, SPLIT), (0, SPLIT)}
    assert tuning.plain_speedup_over_defaults > 5.0


def test_where_a_gpu_does_not_hold_the_model_a_part_of_its_layers_is_found(tmp_path: Path) -> None:
    site = replace(SITE, has_gpu=True, gpu_bytes=(2 << 30,), n_layers=N_LAYERS, needed_bytes=4 << 30)
    rules = ("auto-gpu-1@-1=refuses@at-start",)
    tuning = found(Workbench(tmp_path, rules=rules, site=site, forced=FAST_THREADS).run())
    assert {one.tuned.settings.n_gpu_layers for one in tuning.choices} == {14}
    assert fates(tuning)["auto-gpu-1@-1"] == {"refused: no memory for it"}


# -- the width probe, which does not count towards the cap ------------------------------------------------------------


@pytest.mark.parametrize("most_children", [4, 1])
def test_where_the_cap_is_spent_the_chosen_settings_are_probed_all_the_same(tmp_path: Path, most_children: int) -> None:
    bench = Workbench(tmp_path, step=0.02, most_children=most_children, forced=SMALL)
    tuning = found(bench.run(cap_seconds=12.0))
    assert tuning.is_partial
    assert tuning.width_class == (2, 4, 8, 16)
    assert bench.progress[-2].doing == "widths whose passes agree bit for bit, 60 s at most"
    assert 0.9 < bench.progress[-2].done < 1.0


def test_a_probe_that_does_not_end_is_ended_and_costs_only_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuner, "CLASSES_MOST", 0.5)
    bench = Workbench(tmp_path, rules=("all=hangs@at-classes",), forced=SMALL, step=0.005)
    tuning = found(bench.run())
    assert tuning.width_class == ()
    assert not tuning.is_partial
    assert {fate for told in fates(tuning).values() for fate in told} == {""}
    assert sum(" classes " in note for note in bench.notes()) == 1  # what the first lacks the second cannot mend
    assert stored_tuning(bench.model, "build 1", SMALL, bench.records) is not None


def test_a_probe_is_stopped_at_once_and_what_was_measured_before_it_is_there_for_the_next_run(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, rules=("all=hangs@at-classes",), forced=SMALL)
    assert bench.run(stop_at=" classes ") is None
    n_passes = sum(" pass " in note for note in bench.notes())
    bench.rules = ()
    assert found(bench.run()).width_class == (2, 4, 8, 16)
    assert sum(" pass " in note for note in bench.notes()) < 1.1 * n_passes


def test_beside_busy_programs_nothing_is_probed(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, others=lambda _: 0.8, forced=SMALL, step=0.05)
    assert found(bench.run(cap_seconds=300.0)).width_class == ()
    assert not any(" classes " in note for note in bench.notes())


def test_each_setting_reads_in_the_chunks_that_suit_it(tmp_path: Path) -> None:
    tuning = found(Workbench(tmp_path, rules=("on=any-chunk",), forced=SMALL).run())
    assert names(tuning) == ["on", "off"]
    assert [one.tuned.settings.prefill_chunk for one in tuning.choices] == [128, 256]


def test_a_curve_that_was_cut_to_its_first_widths_decides_no_class(tmp_path: Path) -> None:
    tuning = found(Workbench(tmp_path, step=0.02, forced=SMALL).run(cap_seconds=6.0))
    assert 16 not in tuning.choices[0].tuned.table.widths
    assert tuning.width_class == ()
