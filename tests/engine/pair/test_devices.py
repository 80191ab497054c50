"""Which devices a draft is tried on, the sentences about those it cannot run on, and which of them is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend import machine
from edgespec.backend.settings import LlamaSettings
from edgespec.engine.opening import open_model
from edgespec.engine.options import EngineOptions
from edgespec.engine.pair import devices as module
from edgespec.engine.pair import pairing
from edgespec.engine.pair.devices import AUTO, CPU, GPU, Devices, free_bytes, on_device, takes_core
from edgespec.engine.pair.facts import Host, PairFacts
from edgespec.engine.pair.hosting import host_of
from edgespec.engine.pair.pairing import best_measured, find_partner, find_seconds, forgive
from edgespec.engine.pair.second import Home, Second, SecondKind
from edgespec.errors import BadInput, EngineFailure
from edgespec.events import Notice
from edgespec.spec.cost import CostTable
from edgespec.tune.pair import PairTimes, StepTimes
from edgespec.tune.tuning import Tuned
from tools.make_toy_model import write_toy_model

FLAT = CostTable((0,), (1, 2, 4, 8), ((0.1, 0.1, 0.1, 0.1),))
TUNED = Tuned(LlamaSettings(n_ctx=512, n_threads=2), FLAT, FLAT)
HERE = ("CoreML", "Azure", "CPU")


def asked(wished: str, n_gpus: int = 0, providers: tuple[str, ...] = ("CPU",)) -> Devices:
    return Devices(wished, lambda: n_gpus, lambda: providers)


def unasked() -> int:
    raise AssertionError("nothing but the CPU is in question")


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


# -- names ----------------------------------------------------------------------------------------------------------


def test_a_gguf_is_tried_on_the_cpu_and_on_a_gpu_where_there_is_one() -> None:
    assert asked(AUTO).for_gguf() == (CPU,)
    assert asked(AUTO, n_gpus=1).for_gguf() == (CPU, GPU)
    assert asked("GPU", n_gpus=2).for_gguf() == (GPU,)
    assert asked(CPU, n_gpus=1).for_gguf() == (CPU,)


def test_a_step_model_is_tried_on_accelerators_and_never_over_a_network() -> None:
    assert asked(AUTO).for_step() == (CPU,)
    assert asked(AUTO, providers=HERE).for_step() == (CPU, "CoreML")
    assert asked("coreml", providers=HERE).for_step() == ("CoreML",)
    assert asked("CoreMLExecutionProvider", providers=HERE).for_step() == ("CoreML",)
    assert asked("openvino", providers=("OpenVINO", "CPU")).for_step() == ("OpenVINO",)


def test_the_cpu_is_taken_without_asking_anybody() -> None:
    only = Devices("cpu", unasked, lambda: (str(unasked()),))
    assert only.for_gguf() == only.for_step() == (CPU,)


@pytest.mark.parametrize(
    ("wished", "find", "sentence"),
    [
        ("CoreML", Devices.for_gguf, "--draft-device CoreML: a GGUF drafts on llama.cpp, which has cpu and gpu"),
        ("gpu", Devices.for_gguf, "--draft-device gpu: llama.cpp finds no GPU here"),
        ("CUDA", Devices.for_step, "--draft-device CUDA: a step model runs on ONNX Runtime, and this build of it has"),
        ("gpu", Devices.for_step, "cpu, CoreML, Azure"),
    ],
)
def test_a_device_that_cannot_be_is_a_sentence(
    wished: str, find: Callable[[Devices], tuple[str, ...]], sentence: str
) -> None:
    with pytest.raises(BadInput) as caught:
        find(asked(wished, providers=HERE))
    assert sentence in str(caught.value)
    assert caught.value.remedy


def test_names_tell_devices_apart() -> None:
    assert on_device("little", CPU) == "little"
    assert on_device("little", "CoreML") == "little on CoreML"


def test_only_what_computes_elsewhere_leaves_the_target_its_cores() -> None:
    assert not takes_core(GPU)
    assert not takes_core("CoreML")
    assert takes_core(CPU)
    assert takes_core("OpenVINO")


def test_a_gpus_own_memory_counts_for_what_runs_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: 7)
    monkeypatch.setattr(module, "gpu_free_bytes", lambda: (5, 6))
    assert (free_bytes(CPU), free_bytes(GPU), free_bytes("CoreML")) == (7, 5, 7)
    monkeypatch.setattr(module, "gpu_free_bytes", lambda: (0,))  # a driver that does not say
    assert free_bytes(GPU) == 7


# -- the choice -----------------------------------------------------------------------------------------------------


@contextmanager
def host(folder: Path, tuned: Tuned | None = TUNED, devices: Devices | None = None) -> Iterator[Host]:
    target = write_toy_model(folder / "target.gguf", seed=1)
    write_toy_model(folder / "draft.gguf", seed=2)
    opened = open_model(target, EngineOptions(512, threads=1, draft_model=""), lambda _notice: None)
    try:
        yield replace(host_of(opened), tuned=tuned, devices=devices or asked(AUTO, n_gpus=1))
    finally:
        opened.target.close()


def second(device: str) -> Second:
    def make(_n_threads: int) -> None:
        raise AssertionError("measured by hand here")

    name = on_device("draft", device)
    return Second(name, Path("draft.gguf"), SecondKind.GGUF, name, 64, make, Home.CHILD, device)  # type: ignore[arg-type]


def times(step_seconds: float) -> PairFacts:
    steps = StepTimes(1, ((64, step_seconds),), 0.001, ((1, step_seconds),))
    return PairFacts(PairTimes(steps, steps, 2, 0.0, 0.0))


def measuring(found: dict[str, PairFacts | EngineFailure], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for measuring; returns who was measured, as it happens."""
    told: list[str] = []

    def measured(one: Second, *_arguments: object) -> PairFacts:
        told.append(one.device)
        facts = found[one.device]
        if isinstance(facts, EngineFailure):
            raise facts
        return facts

    monkeypatch.setattr(pairing, "measured", measured)
    return told


@pytest.mark.parametrize(("on_cpu", "on_npu", "taken"), [(0.04, 0.002, "CoreML"), (0.002, 0.04, CPU)])
def test_the_device_that_gains_most_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_cpu: float, on_npu: float, taken: str
) -> None:
    told = measuring({CPU: times(on_cpu), "CoreML": times(on_npu)}, monkeypatch)
    with host(tmp_path) as target:
        best, facts = best_measured([second(CPU), second("CoreML")], target, lambda _notice: None)
    assert (best.device, facts.times.in_turn.step(64)) == (taken, min(on_cpu, on_npu))
    assert told == [CPU, "CoreML"]


def test_where_nothing_can_be_weighed_nothing_more_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = measuring({CPU: times(0.04)}, monkeypatch)
    with host(tmp_path, tuned=None) as target:
        best, _ = best_measured([second(CPU), second("CoreML")], target, lambda _notice: None)
    assert (best.device, told) == (CPU, [CPU])


def test_a_device_that_fails_is_said_and_not_tried_again_before_it_is_forgiven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = EngineFailure("draft on CoreML", "the compiler gave up", "take another")
    told = measuring({CPU: times(0.04), "CoreML": failure}, monkeypatch)
    both = [second(CPU), second("CoreML")]
    notices: list[Notice] = []
    with host(tmp_path) as target:
        for _ in range(2):
            assert best_measured(both, target, notices.append)[0].device == CPU
        assert told == [CPU, "CoreML", CPU]
        assert [one.code for one in notices] == ["draft-unusable"] * 2
        assert all("the compiler gave up" in one.message for one in notices)
        forgive(both[1], target)
        best_measured(both, target, notices.append)
    assert told[-1] == "CoreML"


def test_a_first_device_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring({"CoreML": EngineFailure("draft on CoreML", "the compiler gave up", "take another")}, monkeypatch)
    with host(tmp_path) as target, pytest.raises(EngineFailure, match="gave up"):
        best_measured([second("CoreML")], target, lambda _notice: None)


def test_a_draft_that_is_asked_for_is_found_on_every_device(tmp_path: Path) -> None:
    """Without a GPU: its layers stay on the CPU then, but in a process of their own."""
    with host(tmp_path) as target:
        found = find_seconds(str(tmp_path / "draft.gguf"), target, lambda _notice: None)
    assert [(one.name, one.device, one.home) for one in found] == [
        ("draft", CPU, Home.HERE),
        ("draft on gpu", GPU, Home.CHILD),
    ]
    assert found[0].fingerprint != found[1].fingerprint


def test_trouble_on_a_further_device_is_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitting = pairing.fitting

    def picky(*arguments: object) -> Second:
        if arguments[-1] == GPU:
            raise EngineFailure("draft on gpu", "the driver is too old", "update it")
        return fitting(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pairing, "fitting", picky)
    notices: list[Notice] = []
    with host(tmp_path) as target:
        assert [one.device for one in find_seconds(str(tmp_path / "draft.gguf"), target, notices.append)] == [CPU]
        (notice,) = notices
        assert notice.message == "draft on gpu cannot draft: draft on gpu: the driver is too old; update it."
        only = replace(target, devices=asked(GPU, n_gpus=1))
        with pytest.raises(EngineFailure, match="too old"):
            find_partner(str(tmp_path / "draft.gguf"), None, only, notices.append)


def test_both_are_really_measured_and_the_better_one_drafts(tmp_path: Path) -> None:
    """The second device is the same CPU seen through a process, so either may win; its draft works all the same."""
    with host(tmp_path) as target:
        partner = find_partner(str(tmp_path / "draft.gguf"), None, target, lambda _notice: None)
        assert partner is not None
        assert partner.name in ("draft", "draft on gpu")
        again = find_partner(str(tmp_path / "draft.gguf"), None, target, lambda _notice: None)
        assert again is not None
        assert (again.name, again.times) == (partner.name, partner.times)
        partner.close()
        again.close()
