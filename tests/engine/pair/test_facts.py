"""Measuring a pair of toy GGUFs on libllama: what is kept, when, and how it is given up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.engine.opening import open_model
from edgespec.engine.options import EngineOptions
from edgespec.engine.pair import facts as pairfacts
from edgespec.engine.pair.facts import Host, PairFacts, known_acceptance, known_facts, measured_facts
from edgespec.engine.pair.hosting import host_of
from edgespec.engine.pair.pairing import find_seconds
from edgespec.engine.progress import Progress, Stage
from edgespec.errors import GivenUp
from edgespec.spec.outcomes import constant
from edgespec.tune.agreement import RANKS
from edgespec.tune.decide import PRIOR_ACCEPTANCE
from edgespec.tune.pair import PairTimes, StepTimes
from tools.make_toy_model import write_toy_model

STEPS = StepTimes(1, ((64, 0.001),), 0.001)
TIMES = PairTimes(STEPS, STEPS, 1, 0.0, 0.0)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_toy_model(folder / "target.gguf", seed=1)
    write_toy_model(folder / "twin.gguf", seed=1)
    return folder


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@contextmanager
def host(models: Path) -> Iterator[Host]:
    opened = open_model(models / "target.gguf", EngineOptions(512, threads=1, draft_model=""), lambda _notice: None)
    try:
        yield host_of(opened)
    finally:
        opened.target.close()


def test_everything_is_measured_once_and_told(models: Path) -> None:
    told: list[Progress] = []
    with host(models) as target:
        (second,) = find_seconds(str(models / "twin.gguf"), target, lambda _notice: None)
        assert known_facts(second.fingerprint, target) is None
        found = measured_facts(second, target, on_progress=told.append)
        assert known_facts(second.fingerprint, target) == found
        assert known_acceptance(second.fingerprint, target) == found.acceptance
        assert measured_facts(second, target, found.times, found.acceptance) == found
    assert found.acceptance is not None
    assert found.acceptance.n_tokens == 192
    assert found.top1 > 0.6  # the same weights, but a random model is nearly undecided
    assert found.survivals[0] > 0.6
    assert {one.stage for one in told} == {Stage.TUNE}
    assert [one.share for one in told] == sorted(one.share for one in told)
    assert [one.doing for one in told[:2]] == ["measuring twin: timing steps", "measuring twin: the model speaks"]
    assert told[-1].doing == "measuring twin: the draft follows"


@pytest.mark.parametrize(("limit", "n_tokens"), [("_ENOUGH_SECONDS", 128), ("_MOST_SECONDS", 32)])
def test_a_slow_target_says_less(models: Path, monkeypatch: pytest.MonkeyPatch, limit: str, n_tokens: int) -> None:
    monkeypatch.setattr(pairfacts, limit, 0.0)
    with host(models) as target:
        (second,) = find_seconds(str(models / "twin.gguf"), target, lambda _notice: None)
        found = measured_facts(second, target, TIMES)
    assert found.times == TIMES
    assert found.acceptance is not None
    assert found.acceptance.n_tokens == n_tokens


def test_given_up_it_keeps_the_times_and_raises(models: Path) -> None:
    with host(models) as target:
        (second,) = find_seconds(str(models / "twin.gguf"), target, lambda _notice: None)
        with pytest.raises(GivenUp, match="did not measure the draft twin: it was given up"):
            measured_facts(second, target, on_progress=lambda now: "follows" not in now.doing)
        kept = known_facts(second.fingerprint, target)
        assert kept is not None
        assert kept.acceptance is None
        assert measured_facts(second, target, kept.times).times == kept.times


def test_what_was_not_counted_is_assumed() -> None:
    facts = PairFacts(TIMES)
    assert (facts.top1, facts.ranks) == (PRIOR_ACCEPTANCE, RANKS)
    assert facts.survivals[:3] == pytest.approx(constant(PRIOR_ACCEPTANCE, 3))
    assert replace(facts, acceptance=None) == facts
