"""Probes on a toy model that is written in a second."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.cores import CoreUse
from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.engine.opening import Opened, open_model
from edgespec.engine.options import EngineOptions
from edgespec.engine.samebits import PLAIN_ONLY, SameBits, decode_classes, encode_classes
from edgespec.events import Notice
from edgespec.spec.cost import CostTable
from edgespec.tune.tuning import Choice, Tuned, Tuning
from tools.make_toy_model import write_toy_model

OPTIONS = EngineOptions(ctx_size=512, threads=1, gpu_layers=0)
TABLE = CostTable((0,), (1, 2), ((0.01, 0.02),))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _isolated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(home))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")


@pytest.fixture
def opened(toy: Path) -> Iterator[Opened]:
    one = open_model(toy, OPTIONS, lambda _: None)
    with closing(one.target):
        yield one


def test_widths_are_measured_once_and_remembered(opened: Opened, home: Path, toy: Path) -> None:
    notices: list[Notice] = []
    widths = opened.width_class(notices.append)
    assert widths
    assert opened.width_class(notices.append) == widths
    assert [notice.code for notice in notices] == ["probing-widths"]
    again = open_model(toy, OPTIONS, lambda _: None)
    with closing(again.target):
        assert again.width_class(notices.append) == widths
        assert len(notices) == 1
    (home / "cache" / "widths.json").write_text("{ damaged")
    with closing(open_model(toy, OPTIONS, lambda _: None).target) as target:
        third = SameBits(toy, target, opened.vocab, "other library", None)
        assert third.width_class(notices.append) == widths
        assert [notice.code for notice in notices[1:]] == ["records-rebuilt", "probing-widths"]


def test_a_short_context_is_probed_for_itself(toy: Path) -> None:
    # It can compare less, so what it finds must not be taken for what a long one would find.
    notices: list[Notice] = []
    for n_ctx in (300, 200, 300):
        opened = open_model(toy, replace(OPTIONS, ctx_size=n_ctx), lambda _: None)
        with closing(opened.target):
            opened.width_class(notices.append)
    assert [notice.code for notice in notices] == ["probing-widths"] * 2


def test_the_class_that_tuning_found_cheapest_is_kept_to(opened: Opened, toy: Path) -> None:
    tuning = Tuning(
        (Choice(512, Tuned(LlamaSettings(), TABLE, TABLE)),), (0,), (), LlamaSettings(), 1.0, (2, 3, 4), False, ""
    )
    notices: list[Notice] = []
    bits = SameBits(toy, opened.target, opened.vocab, "library", tuning)
    assert bits.width_class(notices.append) == (2, 3, 4)
    assert notices == []


def test_one_thread_agrees_with_itself_without_a_probe(opened: Opened) -> None:
    notices: list[Notice] = []
    assert opened.agreeing_threads(notices.append) == (1,)
    assert notices == []


def test_threads_are_compared_once_and_remembered(toy: Path) -> None:
    notices: list[Notice] = []
    for _ in range(2):
        opened = open_model(toy, replace(OPTIONS, threads=2, ctx_size=1024), lambda _: None)
        with closing(opened.target):
            # Without flash attention no sum is shared among threads, so their number shows in no bit.
            assert opened.target.settings.flash_attention is FlashAttention.OFF
            bits = SameBits(toy, opened.target, opened.vocab, "library of two", None, clock=lambda: 0.0)
            assert bits.agreeing_threads(notices.append) == (2, 1)
            assert opened.target.settings.n_threads == 2
    assert [notice.code for notice in notices].count("probing-threads") == 1


@pytest.mark.parametrize("classes", [PLAIN_ONLY, ((2, 4, 8), (1,)), ((1, 2), (3,), (4, 16))])
def test_classes_are_remembered_as_text(classes: tuple[tuple[int, ...], ...]) -> None:
    assert decode_classes(encode_classes(classes)) == classes


@pytest.mark.parametrize("text", ["", "x", "1,", "1;;2", "0", "-1,2", "1 2"])
def test_text_that_is_no_classes(text: str) -> None:
    assert decode_classes(text) == ()


def test_a_class_that_was_found_with_other_settings_is_probed_anew(opened: Opened, toy: Path) -> None:
    tuning = Tuning(
        (Choice(512, Tuned(LlamaSettings(), TABLE, TABLE)),), (0,), (), LlamaSettings(), 1.0, (2, 3, 4), False, ""
    )
    bits = SameBits(toy, opened.target, opened.vocab, "yet another library", tuning)
    opened.target.reopen(replace(opened.target.settings, flash_attention=FlashAttention.ON))
    notices: list[Notice] = []
    bits.width_class(notices.append)
    assert [notice.code for notice in notices] == ["probing-widths"]


# -- what is cut short ------------------------------------------------------------------------------------------------


def use_of(others: float | None) -> Callable[[], Callable[[], CoreUse]]:
    return lambda: lambda: CoreUse(1.0, 2, 1.0, others)


def slow() -> Callable[[], float]:
    """A clock on which every pass takes ten seconds."""
    ticks = itertools.count()
    return lambda: 10.0 * next(ticks)


@pytest.mark.parametrize(("others", "kept"), [(1.0, False), (0.1, True), (None, True)])
def test_what_other_programs_cut_short_is_measured_again_by_the_next_process(
    opened: Opened, toy: Path, others: float | None, kept: bool
) -> None:
    """A slow model on a quiet machine would be no faster then."""
    library = f"library beside {others}"
    bits = SameBits(toy, opened.target, opened.vocab, library, None, use_of(others), slow())
    notices: list[Notice] = []
    for _ in range(2):
        assert bits.width_class(notices.append) == (1,)
        opened.target.set_width_classes(())  # as after other settings
    asked = ["probing-widths"] if kept else ["probing-widths", "probe-cut"]
    assert [notice.code for notice in notices] == asked
    again = SameBits(toy, opened.target, opened.vocab, library, None)
    assert (again.width_class(notices.append) == (1,)) == kept
    assert len(notices) == len(asked) + (not kept)


def test_threads_that_were_not_compared_for_lack_of_time_are_asked_for_once_in_a_process(toy: Path) -> None:
    opened = open_model(toy, replace(OPTIONS, threads=2, ctx_size=1024), lambda _: None)
    notices: list[Notice] = []
    with closing(opened.target):
        opened.target.set_width_classes(((1, 2, 3),))
        bits = SameBits(toy, opened.target, opened.vocab, "a busy library", None, use_of(2.0), slow())
        assert bits.agreeing_threads(notices.append) == bits.agreeing_threads(notices.append) == (2,)
        assert opened.target.settings.n_threads == 2
        again = SameBits(toy, opened.target, opened.vocab, "a busy library", None, use_of(2.0), slow())
        assert again.agreeing_threads(notices.append) == (2,)
    assert [notice.code for notice in notices] == ["probing-threads", "probing-threads"]


class Pulled:
    """A clock whose second reading interrupts the target, as a cancelled request does from its own thread."""

    def __init__(self, opened: Opened) -> None:
        self._target = opened.target
        self._n_read = 0

    def __call__(self) -> float:
        self._n_read += 1
        if self._n_read == 2:
            thread = threading.Thread(target=self._target.interrupt)
            thread.start()
            thread.join()
        return 0.0


def test_an_interrupt_ends_a_probe_and_the_next_request_begins_it_anew(toy: Path) -> None:
    opened = open_model(toy, replace(OPTIONS, ctx_size=1024), lambda _: None)
    notices: list[Notice] = []
    with closing(opened.target):
        bits = SameBits(toy, opened.target, opened.vocab, "library", None, use_of(0.0), Pulled(opened))
        with pytest.raises(opened.target.interrupted):
            bits.width_class(notices.append)
        opened.target.resume()
        assert len(bits.width_class(notices.append)) > 1
        opened.target.set_threads(2)
        threads = SameBits(toy, opened.target, opened.vocab, "library", None, use_of(0.0), Pulled(opened))
        with pytest.raises(opened.target.interrupted):
            threads.agreeing_threads(notices.append)
    assert [notice.code for notice in notices] == ["probing-widths"] * 2 + ["probing-threads"]
