"""Known drafts of a card, and the way down among them: what is tried, in which order, and what is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend import machine
from edgespec.backend.probe import model_fingerprint
from edgespec.backend.settings import LlamaSettings
from edgespec.engine.opening import open_model
from edgespec.engine.options import EngineOptions
from edgespec.engine.pair import candidates
from edgespec.engine.pair.candidates import known_drafts
from edgespec.engine.pair.facts import Host
from edgespec.engine.pair.hosting import host_of
from edgespec.engine.pair.pairing import find_partner
from edgespec.engine.pair.partner import Partner
from edgespec.errors import NotEnoughMemory
from edgespec.events import Notice
from edgespec.library.card import ModelCard
from edgespec.library.drafts import DraftNeed
from edgespec.library.header import read_header
from edgespec.library.memory import MemoryEstimate
from edgespec.spec.cost import CostTable
from edgespec.spec.latency import Placement
from edgespec.tune.pair import PairTimes, StepTimes, pair_records, save_pair
from edgespec.tune.tuning import Tuned
from tests.library.toy_card import toy_card
from tools.make_toy_model import write_toy_model

FLAT = CostTable((0,), (1, 2, 4, 8), ((0.1, 0.1, 0.1, 0.1),))
TUNED = Tuned(LlamaSettings(n_ctx=512, n_threads=1), FLAT, FLAT)
CARD = toy_card(b"")
MB = 10**6
# Of each draft: seconds of a step, and of memory so many megabytes.
SECONDS = {"slow": 0.05, "quick": 0.002, "middling": 0.02}
MEGABYTES = {"slow": 100, "quick": 3000, "middling": 800, "useless": 50}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drafts")
    for seed, name in enumerate(("target", *SECONDS, "useless", "unmeasured", "strange"), 1):
        write_toy_model(folder / f"{name}.gguf", seed=seed)
    strange = folder / "strange.gguf"
    strange.write_bytes(strange.read_bytes().replace(b"<|pad|>", b"<|PAD|>"))
    (folder / "broken.gguf").write_bytes(b"no model")
    return folder


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@contextmanager
def host(models: Path, monkeypatch: pytest.MonkeyPatch, *names: str, free_mb: int = 16_000) -> Iterator[Host]:
    """A target whose card knows these drafts, all of them measured; and a machine with so much memory left."""
    options = EngineOptions(512, threads=1, draft_model="")
    opened = open_model(models / "target.gguf", options, lambda _notice: None)
    target = replace(host_of(opened), tuned=TUNED)
    for name in names:
        keep(models / f"{name}.gguf", target, SECONDS.get(name, 9.0)) if name != "unmeasured" else None

    def on_disk(_card: ModelCard) -> Iterator[tuple[str, Path]]:
        return ((name, models / f"{name}.gguf") for name in names)

    def need(path: Path, name: str, n_ctx: int) -> DraftNeed:
        read_header(path)
        return DraftNeed(name, MemoryEstimate(MEGABYTES.get(path.stem, 64) * MB, 0, 0, 0, 0), n_ctx)

    monkeypatch.setattr(candidates, "drafts_on_disk", on_disk)
    monkeypatch.setattr(candidates, "need_of", need)
    monkeypatch.setattr("edgespec.engine.pair.pairing.need_of", need)
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: free_mb * MB)
    try:
        yield target
    finally:
        opened.target.close()


def keep(path: Path, target: Host, step_seconds: float) -> None:
    steps = StepTimes(1, ((64, step_seconds),), 0.001)
    times = PairTimes(steps, steps, 1, 0.5, 0.0)
    save_pair(target.header.path, model_fingerprint(path), target.library, 1, pair_records(), times)


def found(target: Host, reference: str | None = None) -> tuple[Partner | None, list[Notice]]:
    notices: list[Notice] = []
    return find_partner(reference, CARD, target, notices.append), notices


def test_the_largest_gain_comes_first_and_what_was_not_measured_not_at_all(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host(models, monkeypatch, "slow", "unmeasured", "quick", "useless", "middling") as target:
        known = known_drafts(CARD, target, lambda _notice: None)
    assert [one.name for one in known] == ["quick", "middling", "slow", "useless"]
    assert [one.gain for one in known] == sorted((one.gain for one in known), reverse=True)
    assert known[-1].gain == 1.0


def test_what_cannot_be_read_is_a_notice(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[Notice] = []
    with host(models, monkeypatch, "broken", "slow") as target:
        known = known_drafts(CARD, target, notices.append)
    assert [one.name for one in known] == ["slow"]
    assert [one.code for one in notices] == ["draft-unusable"]
    assert notices[0].message.startswith("broken cannot draft:")


def test_a_target_that_was_not_tuned_takes_the_cards_order(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with host(models, monkeypatch, "slow", "quick") as target:
        known = known_drafts(CARD, replace(target, tuned=None), lambda _notice: None)
    assert [(one.name, one.gain) for one in known] == [("slow", 0.0), ("quick", 0.0)]
    assert known_drafts(None, target, lambda _notice: None) == []


# -- the way down -----------------------------------------------------------------------------------------------------


def test_with_memory_for_all_the_best_drafts_and_nothing_is_said(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with host(models, monkeypatch, "slow", "quick", "middling") as target:
        partner, notices = found(target)
    assert partner is not None
    assert (partner.name, notices) == ("quick", [])


def test_each_step_down_for_want_of_memory_has_its_numbers(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with host(models, monkeypatch, "slow", "quick", "middling", free_mb=600) as target:
        partner, notices = found(target)
    assert partner is not None
    assert partner.name == "slow"
    assert [one.code for one in notices] == ["draft-size", "draft-size"]
    assert notices[0].message.startswith("the draft quick needs 3.0 GB for 512 tokens of context, and ")
    assert notices[0].message.endswith("are left for it: trying middling")
    assert notices[1].message.endswith("are left for it: trying slow")


def test_with_no_memory_for_any_the_engine_goes_on_without(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with host(models, monkeypatch, "slow", "quick", free_mb=64) as target:
        partner, notices = found(target)
    assert partner is None
    assert [one.code for one in notices] == ["draft-size", "draft-free"]
    assert notices[-1].message.endswith("drafting without a second model")


def test_what_does_not_fit_the_target_gives_way_to_the_next(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SECONDS, "strange", 0.0001)
    with host(models, monkeypatch, "slow", "strange") as target:
        partner, notices = found(target)
    assert partner is not None
    assert partner.name == "slow"
    assert [one.code for one in notices] == ["draft-unusable"]
    assert "<|PAD|>" in notices[0].message


def test_one_that_does_not_pay_is_kept_for_who_asks_for_it_and_said(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host(models, monkeypatch, "useless") as target:
        partner, notices = found(target)
    assert partner is not None
    assert partner.choice is not None
    assert partner.choice.best.placement is Placement.PLAIN
    assert not partner.may_pay
    assert [one.code for one in notices] == ["draft-free"]
    assert notices[0].message.startswith("useless is not expected to pay here (serial ")


def test_one_asked_for_by_name_gives_way_to_a_known_one_only_for_want_of_memory(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = str(models / "unmeasured.gguf")
    monkeypatch.setitem(MEGABYTES, "unmeasured", 9000)
    with host(models, monkeypatch, "slow", "middling", free_mb=16_000) as target:

        def none_left(*_arguments: object) -> None:
            raise NotEnoughMemory("no memory for unmeasured", "it is large", "give a smaller draft")

        with monkeypatch.context() as patch:
            patch.setattr("edgespec.engine.pair.pairing.find_seconds", none_left)
            patch.setattr(machine, "available_memory_bytes", lambda: 2000 * MB)
            partner, notices = found(target, named)
            assert partner is not None
            assert partner.name == "middling"
            assert [one.code for one in notices] == ["draft-size"]
            assert notices[0].message.startswith("the draft unmeasured needs 9.0 GB")
            assert notices[0].message.endswith("trying middling")
            patch.setattr(candidates, "drafts_on_disk", lambda _card: iter(()))
            with pytest.raises(NotEnoughMemory, match="no memory for unmeasured"):
                found(target, named)


def test_none_is_none(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with host(models, monkeypatch, "slow") as target:
        assert found(target, "") == (None, [])
