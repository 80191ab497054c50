"""A second model beside a target that is not loaded: what is said before it was measured, and after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.doctor.facts import SecondFacts
from edgespec.doctor.report import to_lines
from edgespec.doctor.second import second_does_not_pay, second_facts, second_not_measured
from edgespec.engine.pair.devices import Devices
from edgespec.engine.pair.second import fitting_gguf
from edgespec.errors import PairMismatch
from edgespec.events import Notice
from edgespec.library.header import read_header
from edgespec.spec.cost import CostTable
from edgespec.tune.pair import PairTimes, StepTimes, pair_records, save_pair
from edgespec.tune.tuning import Tuned
from tests.doctor.cases import HEALTHY
from tools.make_toy_model import write_toy_model

FLAT = CostTable((0,), (1, 2, 4, 8), ((0.1, 0.1, 0.1, 0.1),))
TUNED = Tuned(LlamaSettings(n_threads=2), FLAT, FLAT)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")
    return write_toy_model(tmp_path / "target.gguf", seed=1), write_toy_model(tmp_path / "draft.gguf", seed=2)


def told(target: Path, draft: Path) -> SecondFacts:
    notices: list[Notice] = []
    return second_facts(f"{draft}, other.gguf", read_header(target), 512, "build", TUNED, notices, Devices())


def test_before_the_pair_was_measured_nothing_is_expected(models: tuple[Path, Path]) -> None:
    assert told(*models) == SecondFacts("draft", home="in this process")


@pytest.mark.parametrize(("step_seconds", "placement"), [(0.001, "serial"), (0.04, "overlapped"), (9.0, "plain")])
def test_afterwards_it_is_said_where_it_drafts_and_why(
    models: tuple[Path, Path], step_seconds: float, placement: str
) -> None:
    target, draft = models
    second = fitting_gguf(draft, "draft", read_header(target), 512, "build", lambda _notice: None)
    steps = StepTimes(1, ((64, step_seconds),), 0.001, ((1, step_seconds),))
    kappa = 0.5 if placement == "serial" else 0.0
    save_pair(target, second.fingerprint, "build", 2, pair_records(), PairTimes(steps, steps, 1, kappa, 0.0))
    found = told(target, draft)
    assert (found.name, found.placement) == ("draft", placement)
    assert (found.speedup > 1.0) is (placement != "plain")
    assert len(found.reasons) == 2
    assert found.home == "in this process"
    facts = replace(HEALTHY, second=found)
    assert second_not_measured(facts) is None
    assert (second_does_not_pay(facts) is not None) is (placement == "plain")


def test_what_was_not_measured_is_a_cause() -> None:
    found = second_not_measured(replace(HEALTHY, second=SecondFacts("draft")))
    assert found is not None
    assert found.code == "second-not-measured"
    assert second_not_measured(HEALTHY) is None
    assert second_does_not_pay(HEALTHY) is None


def test_a_draft_of_another_vocabulary_is_an_error(models: tuple[Path, Path]) -> None:
    target, draft = models
    draft.write_bytes(draft.read_bytes().replace(b"<|pad|>", b"<|PAD|>"))
    with pytest.raises(PairMismatch):
        told(target, draft)


def test_it_is_said_in_which_process_it_drafts() -> None:
    measured = SecondFacts("little", "serial", 1.5, 0.7, (), "in a process of its own")
    for second in (measured, SecondFacts("little", home="in a process of its own")):
        (line,) = [line for line in to_lines(replace(HEALTHY, second=second), ()) if "little" in line]
        assert "in a process of its own" in line
