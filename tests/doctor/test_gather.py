"""The facts of toy models of every kind of memory, with what is stored and what an engine says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend import machine
from edgespec.backend.cores import CoreUse
from edgespec.backend.llama.native import library_fingerprint
from edgespec.backend.settings import LlamaSettings
from edgespec.config import cache_dir
from edgespec.doctor.facts import ClassFacts, DrafterFacts, Gpu, LedgerFacts, Origin, Speedup, Wishes
from edgespec.doctor.gather import (
    at_rest,
    gpu_of,
    has_running_state,
    library_files,
    observed_drafters,
    possible_drafters,
    with_answer,
)
from edgespec.doctor.measured import OpenedFacts, curve_at
from edgespec.engine import EngineOptions
from edgespec.engine.choosing import cache_shape, wanted_settings
from edgespec.engine.pace import PaceStatus
from edgespec.errors import CorruptModel, NotEnoughMemory
from edgespec.events import Completion, Finish, Notice, Timings, Usage
from edgespec.library.header import read_header
from edgespec.library.memory import MARGIN, estimate
from edgespec.spec.policy import Decision, DrafterView, Explanation, Reason
from edgespec.spec.predict import BreakEven
from edgespec.tune.store import Forced, save_tuning, tuning_records
from edgespec.tune.tuning import Choice, Tuned, Tuning
from tests.doctor.cases import BY_LENGTH, FLAT, HEALTHY, LONG, SHORT, STEEP, tuning, tuning_by_length
from tools.make_toy_model import Kind, write_toy_model

OPTIONS = EngineOptions(ctx_size=512, threads=1)
WISHES = Wishes()
TIMINGS = Timings(0.1, 1.0, 0.2, 50.0, 30, 20, 10, "lookup", False, (), 0, 0, 0)
COMPLETION = Completion("x", (1, 2), Finish.LENGTH, Usage(7, 50), TIMINGS, (Notice("draft-late", "late"),))
EXPLAINED = Explanation(
    last=Decision(Reason.DRAFTED, 1, 3, 4, 2.0, 0.02, 0.01),
    rounds={Reason.DRAFTED: 5, Reason.NO_MATCH: 20},
    break_even=(BreakEven(2, 1.5, 0.5),),
    drafters=(DrafterView("lookup", 40, 0.8, 1.0, 0.0, True), DrafterView("other", 99, 0.1, 1.0, 0.0, True)),
    load=1.3,
    lost_seconds=0.01,
    headroom_seconds=0.2,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings are tried once per model and kept for all tests."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _isolated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(home))


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nothing is known yet."""
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, Path]:
    folder = tmp_path_factory.mktemp("toys")
    return {kind: write_toy_model(folder / f"{kind.value}.gguf", kind=kind) for kind in Kind}


def test_a_running_state_is_told_from_the_header(toys: dict[Kind, Path]) -> None:
    assert {kind for kind, path in toys.items() if has_running_state(read_header(path))} == {Kind.MAMBA, Kind.JAMBA}


def test_what_is_known_before_anything_is_measured(toys: dict[Kind, Path]) -> None:
    facts = at_rest("toy", toys[Kind.GEMMA3], OPTIONS, WISHES, CoreUse(0.5, 2, 0.1, 0.7))
    assert (facts.model.name, facts.model.architecture, facts.model.can_rollback) == ("toy", "gemma3", True)
    assert facts.model.sliding_window > 0
    assert (facts.settings.origin, facts.settings.forced) == (Origin.FORCED, ("--threads 1",))
    assert (facts.settings.settings.n_threads, facts.settings.windowed) == (1, False)
    assert (facts.machine.n_cores, facts.machine.others) == (2, 0.7)
    assert facts.machine.description == machine.describe()
    assert facts.machine.library.startswith("llama-cpp-python 0.")
    assert (facts.curve, facts.width_class, facts.load, facts.asked) == (None, None, None, None)


def test_without_flags_the_settings_are_probed_ones(toys: dict[Kind, Path]) -> None:
    facts = at_rest("toy", toys[Kind.LLAMA], EngineOptions(ctx_size=512), WISHES, None)
    assert (facts.settings.origin, facts.settings.forced, facts.settings.measured_on) == (Origin.PROBED, (), "")
    assert facts.machine.others is None


def test_a_stored_tuning_decides(toys: dict[Kind, Path]) -> None:
    path = toys[Kind.LLAMA]
    save_tuning(path, library_fingerprint(), Forced(threads=1), tuning_records(), tuning(FLAT))
    facts = at_rest("toy", path, OPTIONS, WISHES, None)
    assert (facts.settings.origin, facts.settings.measured_on) == (Origin.TUNED, "2026-01-02T03:04")
    assert (facts.settings.n_tried, facts.settings.speedup) == (3, Speedup(1.5 * 0.010 / 0.010, 256))
    assert facts.settings.settings.n_ctx == 512
    assert facts.curve == curve_at(FLAT, 256, ())
    assert facts.width_class == ClassFacts((2, 4, 8, 16), True, 0.011 / 0.010)
    exact = at_rest("toy", path, OPTIONS, replace(WISHES, exact=True, context=100), None)
    assert exact.curve == curve_at(FLAT, 100, (2, 4, 8, 16))
    assert at_rest("toy", path, EngineOptions(ctx_size=512), WISHES, None).curve is None  # it is of other flags


@pytest.mark.usefixtures("own_home")
def test_the_length_of_the_text_decides_as_in_the_engine(toys: dict[Kind, Path]) -> None:
    path, known = toys[Kind.LLAMA], tuning_by_length()
    save_tuning(path, library_fingerprint(), Forced(threads=1), tuning_records(), known)
    for context, settings, table in ((300, SHORT, BY_LENGTH[0]), (400, LONG, BY_LENGTH[1])):
        facts = at_rest("toy", path, OPTIONS, replace(WISHES, context=context), None)
        assert facts.settings.settings == replace(settings, n_ctx=512)
        assert facts.settings.origin is Origin.TUNED
        assert facts.curve == curve_at(table, context, ())
        assert [one.up_to for one in facts.settings.choices] == [362, None]
        assert [one.settings.flash_attention.value for one in facts.settings.choices] == ["on", "off"]


@pytest.mark.usefixtures("own_home")
def test_exact_answers_of_an_unknown_class_are_shown_every_width(toys: dict[Kind, Path]) -> None:
    path = toys[Kind.LLAMA]
    save_tuning(path, library_fingerprint(), Forced(threads=1), tuning_records(), tuning(FLAT, width_class=()))
    facts = at_rest("toy", path, OPTIONS, replace(WISHES, exact=True), None)
    assert facts.width_class is None
    assert facts.curve == curve_at(FLAT, 256, ())


def test_where_nothing_can_be_taken_back_exact_answers_are_plain(toys: dict[Kind, Path]) -> None:
    facts = at_rest("toy", toys[Kind.MAMBA], OPTIONS, replace(WISHES, exact=True), None)
    assert facts.width_class == ClassFacts((1,), False)


def tuning_of(tuned: Tuned) -> Tuning:
    return replace(tuning(FLAT), choices=(Choice(512, tuned),))


@pytest.mark.usefixtures("own_home")
def test_settings_that_died_in_a_trial_are_not_used_and_told(toys: dict[Kind, Path]) -> None:
    """As a build leaves it whose AMX kernels crash; a tuning of them is of no use then."""
    path = toys[Kind.MOE]
    at_rest("toy", path, OPTIONS, WISHES, None)
    trials = cache_dir() / "trials.json"
    trials.write_text(trials.read_text("utf-8").replace('"works"', '"died"'), "utf-8")
    facts = at_rest("toy", path, OPTIONS, WISHES, None)
    assert facts.settings.settings.extra_buffers is False
    assert [one.code for one in facts.settings.notices] == ["settings-died"]
    save_tuning(path, library_fingerprint(), Forced(threads=1), tuning_records(), tuning(FLAT))
    facts = at_rest("toy", path, OPTIONS, WISHES, None)
    assert (facts.settings.origin, facts.curve) == (Origin.FORCED, None)
    assert facts.settings.measured_on
    assert facts.settings.died == ("flash attention on, 1 thread died: SIGSEGV",)


def test_short_memory_is_told(toys: dict[Kind, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is enough for a cache that holds little more than the sliding windows, and for no larger one."""
    header = read_header(toys[Kind.GEMMA3])
    wanted = wanted_settings(header, EngineOptions(threads=1))
    small = estimate(header, cache_shape(header, wanted.windowed())).total_bytes(wanted.n_ctx)
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: int(small / (1.0 - MARGIN)) + 64)
    facts = at_rest("toy", header.path, EngineOptions(threads=1), WISHES, None)
    assert facts.settings.windowed
    assert [one.code for one in facts.settings.notices] == ["windowed-cache"]
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: 1)
    with pytest.raises(NotEnoughMemory):
        at_rest("toy", header.path, EngineOptions(threads=1), WISHES, None)


def test_a_damaged_model_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(CorruptModel):
        at_rest("broken", path, OPTIONS, WISHES, None)


def test_the_gpu() -> None:
    cpu, gpu = LlamaSettings(), LlamaSettings().on_gpu()
    files = ["libggml-base.so", "libggml-cpu.so"]
    assert gpu_of(cpu, False, files) is Gpu.NONE
    assert gpu_of(cpu, False, [*files, "ggml-CUDA.dll"]) is Gpu.NO_DEVICE
    assert gpu_of(cpu, True, files) is Gpu.UNUSED
    assert gpu_of(gpu, True, files) is Gpu.USED
    assert any("ggml" in name for name in library_files())


def test_which_drafters_are_possible() -> None:
    names = {draft: [one.name for one in possible_drafters(Wishes(draft=draft))] for draft in ("auto", "off", "lookup")}
    assert names == {"auto": ["suffix"], "off": [], "lookup": ["lookup"]}
    given = Wishes(draft="off", has_prediction=True)
    assert [one.name for one in possible_drafters(given)] == ["given"]
    assert [one.name for one in possible_drafters(replace(given, draft="auto"))] == ["given", "suffix"]
    assert [one.name for one in possible_drafters(Wishes(draft="suffix,model"))] == ["suffix"]


def test_what_was_seen_of_a_drafter_replaces_what_was_assumed() -> None:
    assumed = (DrafterFacts("lookup", 0, 0.6), DrafterFacts("given", 0, 0.9))
    assert observed_drafters(assumed, EXPLAINED) == (DrafterFacts("lookup", 40, 0.8), assumed[1])
    few = replace(EXPLAINED, drafters=(replace(EXPLAINED.drafters[0], n_steps=10),))
    assert observed_drafters(assumed, few) == assumed
    assert observed_drafters(assumed, None) == assumed


@pytest.mark.usefixtures("own_home")
def test_with_one_thread_forced_the_table_is_that_of_one_thread(toys: dict[Kind, Path]) -> None:
    path = toys[Kind.MOE]
    tuned = Tuned(LlamaSettings(n_threads=2), FLAT, STEEP)
    save_tuning(path, library_fingerprint(), Forced(), tuning_records(), tuning_of(tuned))
    assert at_rest("toy", path, EngineOptions(), WISHES, None).curve == curve_at(FLAT, 256, ())
    alone = at_rest("toy", path, EngineOptions(threads=1), WISHES, None)
    assert alone.curve is not None
    assert alone.curve == curve_at(STEEP, 256, ())
    assert alone.settings.origin is Origin.TUNED
    assert (alone.settings.cut_short, alone.curve.is_partial) == (False, False)
    partial = Tuned(LlamaSettings(n_threads=2), replace(FLAT, is_partial=True), STEEP)
    save_tuning(path, library_fingerprint(), Forced(), tuning_records(), replace(tuning_of(partial), is_partial=True))
    cut = at_rest("toy", path, EngineOptions(), WISHES, None)
    assert cut.settings.cut_short
    assert cut.curve is not None
    assert cut.curve.is_partial


def test_an_answer_brings_what_the_engine_really_did() -> None:
    tuned = tuning(FLAT)
    used = tuned.choices[0].tuned.settings
    died = Notice("settings-died", "it crashed")
    opened = OpenedFacts(used, (died, Notice("no-rollback", "no")), tuned, EXPLAINED)
    facts = with_answer(replace(HEALTHY, asked=None), COMPLETION, opened)
    assert facts.asked is not None
    assert facts.asked.rounds == ((Reason.NO_MATCH, 20), (Reason.DRAFTED, 5))
    assert (facts.asked.n_prompt, facts.asked.n_output, facts.asked.n_drafted) == (7, 50, 20)
    assert facts.asked.notices == COMPLETION.notices
    assert (facts.settings.settings, facts.settings.notices[0], facts.settings.origin) == (used, died, Origin.TUNED)
    assert not facts.model.can_rollback
    assert facts.load == 1.3
    assert facts.ledger == LedgerFacts(0.01, 0.2)
    assert facts.drafters == (DrafterFacts("lookup", 40, 0.8),)
    assert facts.curve == replace(curve_at(FLAT, 256, ()), break_even=EXPLAINED.break_even)
    assert (facts.asked.settings, facts.pace) == (used, None)
    assert facts.width_class == HEALTHY.width_class


def test_an_answer_of_an_engine_that_measured_nothing() -> None:
    exact = replace(HEALTHY, wishes=replace(HEALTHY.wishes, exact=True))
    widths = replace(COMPLETION, timings=replace(TIMINGS, exact=True, width_class=(1,)))
    facts = with_answer(exact, widths, OpenedFacts(LlamaSettings(), (), None, None))
    assert (facts.load, facts.ledger, facts.curve, facts.settings.origin) == (None, None, None, Origin.PROBED)
    assert facts.width_class == ClassFacts((1,), False)
    assert facts.asked is not None
    assert (facts.asked.rounds, facts.asked.n_rounds) == ((), 0)
    assert facts.drafters == HEALTHY.drafters


def test_an_exact_answer_shows_the_class_it_was_kept_to() -> None:
    """The tuning found none."""
    exact = replace(HEALTHY, wishes=replace(HEALTHY.wishes, exact=True), width_class=None)
    widths = replace(COMPLETION, timings=replace(TIMINGS, exact=True, width_class=(2, 8)))
    tuned = tuning(FLAT, width_class=())
    facts = with_answer(exact, widths, OpenedFacts(tuned.choices[0].tuned.settings, (), tuned, None))
    assert facts.width_class == ClassFacts((2, 8), False, 0.011 / 0.010)
    assert facts.curve == curve_at(FLAT, 256, (2, 8))


def test_the_engine_s_threads_are_facts_too() -> None:
    pace = PaceStatus(1, 2, 2, 1.6, 3, 1)
    opened = OpenedFacts(LlamaSettings(), (), None, None, pace)
    assert with_answer(HEALTHY, COMPLETION, opened).pace == pace
