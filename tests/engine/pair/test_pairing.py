"""A second model in a real engine: two toy GGUFs on libllama, in turn and side by side, whole and broken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend import machine
from edgespec.choice import DraftChoice
from edgespec.engine import Engine, EngineOptions, GenerateOptions
from edgespec.engine.arrangement import Arranger
from edgespec.engine.pair import facts as pairfacts
from edgespec.engine.pair import pairing, standings
from edgespec.engine.pair.facts import PairFacts
from edgespec.engine.pair.second import Second, fitting_gguf
from edgespec.engine.pair.weighing import weigh
from edgespec.engine.progress import Progress, Stage
from edgespec.errors import (
    BadInput,
    CorruptModel,
    EdgeSpecError,
    EngineFailure,
    GivenUp,
    ModelNotFound,
    NotEnoughMemory,
    PairMismatch,
    UnsupportedModel,
)
from edgespec.events import Completion, Notice
from edgespec.library.header import GgufHeader
from edgespec.spec.cost import CostTable
from edgespec.spec.latency import Placement
from edgespec.spec.law import SamplingSettings
from edgespec.spec.outcomes import constant
from edgespec.spec.placement import Choice
from edgespec.spec.ports import IntArray
from edgespec.spec.ratio import VERIFIER_NAMES, CannotVerify
from edgespec.spec.step import Ranked, StepLimits, StepModel
from edgespec.tune.pair import PairTimes, StepTimes, measure_pair
from edgespec.tune.tuning import Tuned
from tools.make_toy_model import SHAPES, Kind, write_toy_model

PROMPT = "the small river runs under the old bridge and the children"
WARM = SamplingSettings(temperature=0.8, top_p=0.9, seed=7)
ASKED = GenerateOptions(max_tokens=40, draft=DraftChoice.MODEL)
FLAT = CostTable((0,), (1, 2, 4, 8, 16), ((0.1, 0.1, 0.1, 0.1, 0.1),))
STEEP = CostTable((0,), (1, 2, 4, 8, 16), ((0.1, 0.2, 0.4, 0.8, 1.6),))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_toy_model(folder / "target.gguf", seed=1)
    write_toy_model(folder / "twin.gguf", seed=1)
    write_toy_model(folder / "other.gguf", seed=2)
    write_toy_model(folder / "running.gguf", Kind.MAMBA)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _isolated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(home))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


def options(draft: str | Path | None) -> EngineOptions:
    return EngineOptions(ctx_size=512, threads=1, draft_model=None if draft is None else str(draft))


def told(engine: Engine, asked: GenerateOptions) -> Completion:
    answer = engine.complete(PROMPT, asked)
    for _ in answer:
        pass
    return answer.completion()


@pytest.fixture(scope="module")
def plain(models: Path, home: Path) -> Iterator[Callable[[GenerateOptions], Completion]]:
    """Answers without a second model, each made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESPEC_HOME", str(home))
        known: dict[GenerateOptions, Completion] = {}
        with Engine.open(models / "target.gguf", options("")) as engine:

            def ask(asked: GenerateOptions) -> Completion:
                asked = replace(asked, draft=DraftChoice.OFF)
                if asked not in known:
                    known[asked] = told(engine, asked)
                return known[asked]

            yield ask


def placed(placement: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is measured, the draft runs there."""
    steps = StepTimes(1, ((64, 0.001),), 0.001, ((1, 0.001), (2, 0.001), (4, 0.002), (8, 0.003)))
    slow = StepTimes(1, ((64, 0.05),), 0.01, ((1, 0.05),))
    beside = placement is Placement.OVERLAPPED
    times = PairTimes(slow if beside else steps, steps, 1, 0.0, 0.0)

    def weighed(_facts: PairFacts, _tuned: Tuned | None) -> Choice | None:
        choice = weigh(FLAT, FLAT if beside else STEEP, times, constant(0.8))
        assert choice.best.placement is placement
        return choice

    monkeypatch.setattr(pairing, "weighed", weighed)


@pytest.mark.parametrize("placement", [Placement.SERIAL, Placement.OVERLAPPED])
@pytest.mark.parametrize("draft", ["twin", "other"])
def test_answers_are_the_same_wherever_the_draft_runs(
    models: Path,
    plain: Callable[[GenerateOptions], Completion],
    monkeypatch: pytest.MonkeyPatch,
    placement: Placement,
    draft: str,
) -> None:
    placed(placement, monkeypatch)
    with Engine.open(models / "target.gguf", options(models / f"{draft}.gguf")) as engine:
        assert engine.partner is not None
        assert engine.partner.is_beside is (placement is Placement.OVERLAPPED)
        for sampling in (SamplingSettings(), WARM):
            for asked in (replace(ASKED, sampling=sampling, exact=True), replace(ASKED, sampling=sampling)):
                got = told(engine, asked)
                assert got.token_ids == plain(asked).token_ids
                if draft == "twin" and placement is Placement.SERIAL:
                    assert got.timings.drafter == "twin"
                    assert got.timings.draft_n_accepted > 10
        counts = engine.partner.counts
        if placement is Placement.OVERLAPPED:
            assert counts is not None
            assert counts.n_steps > 0
            assert counts.n_given_up == 0
        else:
            assert counts is None


def test_a_draft_that_loses_beside_the_target_goes_on_in_turn_and_says_so_once(
    models: Path, plain: Callable[[GenerateOptions], Completion], monkeypatch: pytest.MonkeyPatch
) -> None:
    placed(Placement.OVERLAPPED, monkeypatch)
    monkeypatch.setattr(standings, "_LEAST_TOKENS", 1)
    # Whatever a round takes beside the draft, plain decoding would have been faster.
    monkeypatch.setattr(Arranger, "t1_seconds", lambda _self, _context: 1e-7)
    with Engine.open(models / "target.gguf", options(models / "twin.gguf")) as engine:
        assert engine.partner is not None
        asked = replace(ASKED, sampling=WARM)
        got = [told(engine, asked) for _ in range(3)]
        assert not engine.partner.is_beside
    assert [one.token_ids for one in got] == [plain(asked).token_ids] * 3
    codes = [[notice.code for notice in one.notices] for one in got]
    assert [one.count("draft-in-turn") for one in codes] == [0, 1, 0]


def test_measuring_may_be_given_up(models: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    told: list[Progress] = []

    def goes_on(now: Progress) -> bool:
        told.append(now)
        return now.stage is not Stage.TUNE

    with pytest.raises(GivenUp, match="did not measure the draft other"):
        Engine.open(models / "target.gguf", options(models / "other.gguf"), on_progress=goes_on)
    assert [one.stage for one in told].count(Stage.TUNE) == 1


def test_a_cascade_of_three_models_says_the_same(
    models: Path, plain: Callable[[GenerateOptions], Completion], monkeypatch: pytest.MonkeyPatch
) -> None:
    placed(Placement.SERIAL, monkeypatch)
    both = f"{models / 'twin.gguf'},{models / 'other.gguf'}"
    with Engine.open(models / "target.gguf", options(both)) as engine:
        for sampling in (SamplingSettings(), WARM):
            asked = replace(ASKED, sampling=sampling, exact=True, draft=DraftChoice.parse("cascade"))
            got = told(engine, asked)
            assert got.token_ids == plain(asked).token_ids
            assert got.timings.drafter == "cascade"


def test_what_was_measured_once_is_known_the_next_time(
    models: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    made: list[PairTimes] = []
    measure = measure_pair

    def counted(*arguments: object) -> PairTimes:
        made.append(measure(*arguments))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(pairfacts, "measure_pair", counted)
    found: list[PairFacts] = []
    notices: list[list[str]] = []
    for _ in range(2):
        with Engine.open(models / "target.gguf", options(models / "other.gguf")) as engine:
            assert engine.partner is not None
            found.append(engine.partner.facts)
            notices.append([notice.code for notice in engine.notices])
    assert len(made) == 1
    assert found[0] == found[1]
    assert found[0].times == made[0]
    assert made[0].in_turn.read_seconds > 0.0
    assert found[0].acceptance is not None
    assert found[0].acceptance.n_tokens > 100
    assert [codes.count("measuring-draft") for codes in notices] == [1, 0]


def test_without_a_tuning_auto_drafts_nothing_and_a_model_asked_for_by_name_does(models: Path) -> None:
    with Engine.open(models / "target.gguf", options(models / "twin.gguf")) as engine:
        assert told(engine, replace(ASKED, draft=DraftChoice.AUTO)).timings.draft_n == 0
        assert told(engine, ASKED).timings.draft_n > 0


# -- what can be wrong --------------------------------------------------------------------------------------------


def test_a_model_asked_for_by_name_must_be_there(models: Path) -> None:
    with (
        Engine.open(models / "target.gguf", options("")) as engine,
        pytest.raises(BadInput, match="there is no second model; name one with '--draft-model'"),
    ):
        told(engine, ASKED)


def test_a_draft_for_another_target_is_refused_with_the_first_token_that_differs(models: Path, tmp_path: Path) -> None:
    shape = replace(SHAPES[Kind.LLAMA])
    other = write_toy_model(tmp_path / "strange.gguf", shape=shape)
    data = other.read_bytes()
    assert data.count(b"<|pad|>") >= 1
    other.write_bytes(data.replace(b"<|pad|>", b"<|PAD|>"))
    with pytest.raises(PairMismatch, match=r"strange.gguf as a draft for target.gguf: token 260 is '<\|PAD\|>' to the"):
        Engine.open(models / "target.gguf", options(other))


@pytest.mark.parametrize(
    ("name", "error"),
    [("missing.gguf", ModelNotFound), ("missing.step", ModelNotFound), ("running.gguf", UnsupportedModel)],
)
def test_a_wrong_file_is_named(models: Path, name: str, error: type[EdgeSpecError]) -> None:
    with pytest.raises(error, match=name.partition(".")[0]):
        Engine.open(models / "target.gguf", options(models / name))


def test_a_damaged_step_model_is_named(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken.step"
    folder.mkdir()
    (folder / "step.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CorruptModel, match=r"step model .*broken.step: model.onnx is missing; make it again"):
        Engine.open(models / "target.gguf", options(folder))


def test_too_little_memory_for_a_draft_is_said_with_its_numbers(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = models / "twin.gguf"
    with Engine.open(models / "target.gguf", options("")) as engine:
        header = engine.header
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: 60 << 20)
    notices: list[Notice] = []
    said = r"no memory for twin: the draft twin needs .* MB .* are left for it; give"
    with pytest.raises(NotEnoughMemory, match=said):
        fitting_gguf(twin, "twin", header, 512, "library", notices.append)


class Faulty:
    """A step model that goes wrong at its n-th run."""

    name = "faulty"

    def __init__(self, inner: StepModel, fault: Callable[[Ranked], Ranked], at: int) -> None:
        self._inner = inner
        self._fault = fault
        self._at = at
        self._n_runs = 0

    @property
    def limits(self) -> StepLimits:
        return self._inner.limits

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        self._n_runs += 1
        ranked = self._inner.run(tokens, start, parents)
        return self._fault(ranked) if self._n_runs % self._at == 0 else ranked

    def read(self, tokens: IntArray, start: int) -> None:
        self._inner.read(tokens, start)

    def keep(self, cells: IntArray, start: int) -> None:
        self._inner.keep(cells, start)

    def close(self) -> None:
        self._inner.close()


def _raises(_ranked: Ranked) -> Ranked:
    raise EngineFailure("the draft", "it was told to fail", "nothing")


def _nan(ranked: Ranked) -> Ranked:
    return replace(ranked, logits=ranked.logits * float("nan"))


def _strange_ids(ranked: Ranked) -> Ranked:
    return replace(ranked, ids=ranked.ids + 100_000)


def _one_row_short(ranked: Ranked) -> Ranked:
    return replace(ranked, logits=ranked.logits[:, :1])


RELEASED = threading.Event()


def _hangs(ranked: Ranked) -> Ranked:
    RELEASED.wait(60.0)
    return ranked


@pytest.mark.parametrize("placement", [Placement.SERIAL, Placement.OVERLAPPED])
@pytest.mark.parametrize("fault", [_raises, _nan, _strange_ids, _one_row_short])
def test_a_draft_that_goes_wrong_costs_no_token(
    models: Path,
    plain: Callable[[GenerateOptions], Completion],
    monkeypatch: pytest.MonkeyPatch,
    placement: Placement,
    fault: Callable[[Ranked], Ranked],
) -> None:
    placed(placement, monkeypatch)
    broken(monkeypatch, fault, at=5)
    with Engine.open(models / "target.gguf", options(models / "twin.gguf")) as engine:
        asked = replace(ASKED, sampling=WARM, exact=True)
        got = told(engine, asked)
        assert got.token_ids == plain(asked).token_ids
        codes = [notice.code for notice in got.notices if notice.code.startswith("draft-")]
        assert len(codes) <= 1
        if placement is Placement.SERIAL:
            assert codes == ["draft-raised"]
        assert told(engine, asked).token_ids == plain(asked).token_ids


def test_a_draft_that_hangs_beside_the_target_is_left_behind(
    models: Path, plain: Callable[[GenerateOptions], Completion], monkeypatch: pytest.MonkeyPatch
) -> None:
    placed(Placement.OVERLAPPED, monkeypatch)
    broken(monkeypatch, _hangs, at=2)
    RELEASED.clear()
    try:
        with Engine.open(models / "target.gguf", options(models / "twin.gguf")) as engine:
            asked = replace(ASKED, sampling=WARM, exact=True)
            assert told(engine, asked).token_ids == plain(asked).token_ids
            RELEASED.set()  # closing waits for a call under way
    finally:
        RELEASED.set()


def broken(monkeypatch: pytest.MonkeyPatch, fault: Callable[[Ranked], Ranked], at: int) -> None:
    """Every network that is made goes wrong, but not while the pair is measured."""
    find = pairing.fitting
    measured = threading.Event()

    def found(
        reference: str, target: GgufHeader, n_ctx: int, library: str, notify: Callable[[Notice], None], device: str
    ) -> Second:
        second = find(reference, target, n_ctx, library, notify, device)

        def make(n_threads: int) -> StepModel:
            network = second.make(n_threads)
            return Faulty(network, fault, at) if measured.is_set() else network

        return replace(second, make=make)

    def measure(*_arguments: object) -> PairFacts:
        steps = StepTimes(1, ((64, 0.001),), 0.001, ((1, 0.001),))
        measured.set()
        return PairFacts(PairTimes(steps, steps, 1, 0.0, 0.0))

    monkeypatch.setattr(pairing, "fitting", found)
    monkeypatch.setattr(pairing, "measured", measure)


# -- verifiers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", VERIFIER_NAMES)
def test_every_verifier_takes_what_the_second_model_drafts_for_it(
    models: Path, monkeypatch: pytest.MonkeyPatch, verify: str
) -> None:
    placed(Placement.SERIAL, monkeypatch)
    with Engine.open(models / "target.gguf", options(models / "twin.gguf")) as engine:
        got = told(engine, replace(ASKED, sampling=WARM, verify=verify))
        assert got.timings.draft_n_accepted > 5
        assert told(engine, replace(ASKED, sampling=WARM, verify=verify)).token_ids == got.token_ids


def test_a_verifier_that_cannot_treat_a_draft_exactly_says_so(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed(Placement.SERIAL, monkeypatch)
    with (
        Engine.open(models / "target.gguf", options(models / "twin.gguf")) as engine,
        pytest.raises(CannotVerify, match=r"--verify block cannot treat this draft exactly: .* mode COUPLED; use"),
    ):
        told(engine, replace(ASKED, sampling=WARM, verify="block", draft=DraftChoice.parse("cascade")))


@pytest.mark.parametrize(("verify", "exact", "why"), [("magic", False, "no such verifier"), ("block", True, "--exact")])
def test_wrong_verifiers_are_refused(verify: str, exact: bool, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        GenerateOptions(verify=verify, exact=exact)
