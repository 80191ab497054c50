"""A draft in a process of its own, in a real engine, and every way to lose it: killed, hung, speaking nonsense.

In exact mode the answer has the tokens of plain decoding whatever happens to the draft, says once what happened, and is
drafted again when the draft is back.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from edgespec.backend.llama.step import draft_settings
from edgespec.backend.remote import Patience, RemoteStep
from edgespec.backend.remote_spec import llama_spec
from edgespec.choice import CASCADE, DraftChoice
from edgespec.draft.guard import RAISED
from edgespec.engine import CancelToken, Engine, EngineOptions, GenerateOptions, core
from edgespec.engine.pair import partner
from edgespec.engine.pair.facts import PairFacts
from edgespec.engine.pair.partner import Partner
from edgespec.engine.pair.second import Home, Second, SecondKind
from edgespec.engine.pair.weighing import weigh
from edgespec.errors import EngineFailure
from edgespec.events import Completion, Finish, Notice, RoundReport
from edgespec.library.header import read_header
from edgespec.spec.cost import CostTable
from edgespec.spec.latency import Placement
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.outcomes import constant
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.step import StepModel
from edgespec.spec.tree import chain
from edgespec.text.vocab import Segment
from edgespec.tune.pair import PairTimes, StepTimes
from tests.engine.bad_child import DIES, GARBAGE, HANGS, NAN, NEVER, STRANGE
from tools.make_toy_model import write_toy_model

PROMPT = "the small river runs under the old bridge and the children"
WARM = SamplingSettings(temperature=0.8, top_p=0.9, seed=7)
ASKED = GenerateOptions(max_tokens=60, sampling=WARM, exact=True, draft=DraftChoice.MODEL)
BY_CASCADE = replace(ASKED, draft=DraftChoice.parse(CASCADE))
# A test that waits longer for another thread or process has failed, however busy the machine is.
PATIENCE_SECONDS = 60.0
# What a call of the draft may take, so that no test passes by waiting for its end.
HUNG_SECONDS = 3 * PATIENCE_SECONDS
# Calls of the draft until it goes wrong: in the midst of a proposal.
AT = 7


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_toy_model(folder / "target.gguf", seed=1)
    write_toy_model(folder / "twin.gguf", seed=1)
    write_toy_model(folder / "other.gguf", seed=2)
    return folder


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path_factory.getbasetemp() / "home"))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


OPTIONS = EngineOptions(ctx_size=512, threads=1, draft_model="")
STEPS = StepTimes(1, ((64, 0.001),), 0.001, ((1, 0.001), (4, 0.002)))
FLAT = CostTable((0,), (1, 16), ((0.1, 0.1),))


def told(engine: Engine, asked: GenerateOptions, on_round: Callable[[RoundReport], object] | None = None) -> Completion:
    tokens = engine.encoder.encode([Segment(PROMPT, trusted=False)])
    return engine.submit(engine.new_sequence(), False, tokens, asked, on_round=on_round).completion()


@pytest.fixture(scope="module")
def plain(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, ...]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESPEC_HOME", str(tmp_path_factory.getbasetemp() / "home"))
        with Engine.open(models / "target.gguf", OPTIONS) as engine:
            yield told(engine, replace(ASKED, draft=DraftChoice.OFF)).token_ids


@dataclass
class Kitchen:
    """Makes the drafts' processes, which pause by its own clock; the one called `bad` goes wrong. marker: is there once
    it has.
    """

    models: Path
    fault: str
    marker: Path
    bad: str = "twin"
    at: int = AT
    now: float = 100.0
    steps: list[RemoteStep] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)

    def clock(self) -> float:
        return self.now

    def partner(self, name: str, below: Partner | None = None, is_beside: bool = False) -> Partner:
        times = PairTimes(replace(STEPS, step_seconds=((64, 0.05),)) if is_beside else STEPS, STEPS, 1, 0.0, 0.0)
        choice = weigh(FLAT, FLAT, times, constant(0.8)) if is_beside else None
        assert choice is None or choice.best.placement is Placement.OVERLAPPED
        path = self.models / f"{name}.gguf"
        second = Second(name, path, SecondKind.GGUF, name, 512, lambda _n: self.make(path), Home.CHILD)
        return Partner(second, PairFacts(times, None), choice, time.perf_counter, below)

    def make(self, path: Path) -> StepModel:
        fault = self.fault if path.stem == self.bad else NEVER

        def command(spec: str) -> Sequence[str]:
            return [sys.executable, "-m", "tests.engine.bad_child", spec, fault, str(self.at), str(self.marker)]

        spec = llama_spec(path, draft_settings(512, 1), read_header(path).n_vocab, path.stem)
        self.steps.append(RemoteStep(spec, path.stem, clock=self.clock, command=command))
        return self.steps[-1]

    def wait(self, n_steps: int = 1) -> None:
        """Until the drafts are there, those with new processes too. While the engine does nothing with them."""
        until(lambda: len(self.steps) == n_steps)
        self.now += 1000.0
        for step in self.steps:
            until(step.is_there)
            self.pids.add(step.pid)


@contextmanager
def opened(
    kitchen: Kitchen, second: Partner, monkeypatch: pytest.MonkeyPatch, patience: float = HUNG_SECONDS
) -> Iterator[Engine]:
    monkeypatch.setattr(core, "find_partner", lambda *_arguments: second)
    monkeypatch.setattr(partner, "patience", lambda _times: Patience(patience))
    with Engine.open(kitchen.models / "target.gguf", OPTIONS) as engine:
        yield engine
    assert not any(psutil.pid_exists(pid) for pid in kitchen.pids)


@pytest.fixture
def make_kitchen(models: Path, tmp_path: Path) -> Callable[[str], Kitchen]:
    return lambda fault: Kitchen(models, fault, tmp_path / "happened")


@pytest.mark.parametrize(
    ("asked", "fault", "said", "n_starts"),
    [
        (ASKED, HANGS, "its process gave no answer within 0.5 s", 2),
        (ASKED, DIES, "its process died (it left with code 9)", 2),
        (ASKED, GARBAGE, "no frame starts with b'Erro'", 2),
        (ASKED, NAN, "it has logits that are not numbers", 1),
        (ASKED, STRANGE, "it has token ids from 100", 1),
        (BY_CASCADE, HANGS, "its process gave no answer within 0.5 s", 2),
        (BY_CASCADE, GARBAGE, "no frame starts with b'Erro'", 2),
    ],
)
def test_a_draft_that_goes_wrong_costs_no_token_and_comes_back(
    make_kitchen: Callable[[str], Kitchen],
    plain: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    asked: GenerateOptions,
    fault: str,
    said: str,
    n_starts: int,
) -> None:
    kitchen = make_kitchen(fault)
    with opened(kitchen, kitchen.partner("twin"), monkeypatch, 0.5 if fault == HANGS else HUNG_SECONDS) as engine:
        kitchen.wait()
        got = told(engine, asked)
        assert kitchen.marker.exists()
        assert got.token_ids == plain
        (notice,) = [notice for notice in got.notices if notice.code.startswith("draft-")]
        assert notice.code == RAISED
        assert said in notice.message
        kitchen.wait()
        again = told(engine, asked)
        assert again.token_ids == plain
        assert again.timings.draft_n_accepted > 10
        assert not again.notices
        assert kitchen.steps[0].n_starts == n_starts


@pytest.mark.parametrize("asked", [ASKED, BY_CASCADE], ids=["in turn", "cascade"])
def test_a_draft_that_is_killed_is_back_before_the_answer_ends(
    make_kitchen: Callable[[str], Kitchen],
    monkeypatch: pytest.MonkeyPatch,
    asked: GenerateOptions,
) -> None:
    """After the pause the new process reads the text from its first token on, in the midst of the answer."""
    asked = replace(asked, max_tokens=200)
    kitchen = make_kitchen(NEVER)
    drafted: list[int] = []

    def on_round(report: RoundReport) -> None:
        drafted.append(report.n_drafted)
        if len(drafted) == 2:
            psutil.Process(kitchen.steps[0].pid).kill()
        if len(drafted) == 5:
            kitchen.wait()  # this is the thread that uses it

    with opened(kitchen, kitchen.partner("twin"), monkeypatch) as engine:
        without = told(engine, replace(asked, draft=DraftChoice.OFF)).token_ids
        kitchen.wait()
        got = told(engine, asked, on_round)
        assert got.token_ids == without
        assert [notice.code for notice in got.notices] == [RAISED]
        assert "its process died" in got.notices[0].message
        assert drafted[0] > 0
        assert drafted[2:6] == [0, 0, 0, 0]
        assert sum(drafted[6:]) > 10
        assert kitchen.steps[0].n_starts == 2


def test_a_third_model_that_goes_wrong_costs_no_token(
    make_kitchen: Callable[[str], Kitchen], plain: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kitchen = replace(make_kitchen(DIES), bad="other", at=1)
    both = kitchen.partner("twin", kitchen.partner("other"))
    monkeypatch.setattr(both, "_inner_policy", lambda: FixedPolicy(2))  # whatever its steps cost, it is asked
    with opened(kitchen, both, monkeypatch) as engine:
        kitchen.wait(2)
        codes = []
        for _ in range(4):
            got = told(engine, BY_CASCADE)
            assert got.token_ids == plain
            codes += [notice.code for notice in got.notices]
            kitchen.wait(2)
        assert kitchen.marker.exists()
        assert codes == [RAISED]


@pytest.mark.parametrize("asked", [ASKED, BY_CASCADE], ids=["in turn", "cascade"])
def test_cancelling_does_not_wait_for_a_draft_that_hangs(
    make_kitchen: Callable[[str], Kitchen],
    plain: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    asked: GenerateOptions,
) -> None:
    """The draft may take minutes; the completion is there long before."""
    kitchen = make_kitchen(HANGS)
    with opened(kitchen, kitchen.partner("twin"), monkeypatch) as engine:
        kitchen.wait()
        cancel, got = CancelToken(), []
        tokens = engine.encoder.encode([Segment(PROMPT, trusted=False)])
        answer = engine.submit(engine.new_sequence(), False, tokens, asked, cancel)
        until(kitchen.marker.exists)
        cancel.cancel()
        reader = threading.Thread(target=lambda: got.append(answer.completion()), daemon=True)
        reader.start()
        reader.join(PATIENCE_SECONDS)
        assert [one.finish for one in got] == [Finish.CANCELLED]
        kitchen.wait()
        again = told(engine, asked)
        assert again.token_ids == plain
        assert again.timings.draft_n_accepted > 10


def test_closing_does_not_wait_for_a_draft_that_hangs(
    make_kitchen: Callable[[str], Kitchen], monkeypatch: pytest.MonkeyPatch
) -> None:
    kitchen = make_kitchen(HANGS)
    ends: list[str] = []
    with opened(kitchen, kitchen.partner("twin"), monkeypatch) as engine:
        kitchen.wait()
        tokens = engine.encoder.encode([Segment(PROMPT, trusted=False)])
        answer = engine.submit(engine.new_sequence(), False, tokens, ASKED)
        until(kitchen.marker.exists)

        def read() -> None:
            try:
                answer.completion()
            except EngineFailure as error:
                ends.append(error.why)

        threads = [threading.Thread(target=act, daemon=True) for act in (read, engine.close)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        assert ends == ["the engine was closed"]


@pytest.mark.parametrize("fault", [HANGS, DIES])
def test_beside_the_target_a_lost_draft_costs_no_token(
    make_kitchen: Callable[[str], Kitchen], plain: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    kitchen = make_kitchen(fault)
    with opened(kitchen, kitchen.partner("twin", is_beside=True), monkeypatch, 0.5) as engine:

        def is_lost() -> bool:
            assert told(engine, ASKED).token_ids == plain
            return kitchen.marker.exists()

        until(is_lost)
        assert told(engine, ASKED).token_ids == plain
        kitchen.pids |= {step.pid for step in kitchen.steps if step.pid}


def test_at_the_end_a_draft_that_hangs_beside_the_target_is_killed(
    make_kitchen: Callable[[str], Kitchen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partner, "patience", lambda _times: Patience(HUNG_SECONDS))
    kitchen = replace(make_kitchen(HANGS), at=1)
    second = kitchen.partner("twin", is_beside=True)
    drafter = second.drafter(Law(WARM))
    drafter.begin(0, np.array([1, 2, 3], np.int32))
    drafter.anticipate(0, chain([4], [1.0]))
    until(kitchen.marker.exists)
    (step,) = kitchen.steps
    pid = step.pid
    second.close()
    assert not psutil.pid_exists(pid)


def test_an_answer_begins_before_the_draft_is_there(
    make_kitchen: Callable[[str], Kitchen], plain: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kitchen = make_kitchen(NEVER)
    with opened(kitchen, kitchen.partner("twin"), monkeypatch) as engine:
        got = told(engine, ASKED)
        assert got.token_ids == plain
        assert not got.notices


def test_a_draft_that_cannot_be_opened_is_told_and_costs_no_token(
    make_kitchen: Callable[[str], Kitchen], plain: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kitchen = make_kitchen(NEVER)
    second = kitchen.partner("twin")

    def make(_n_threads: int) -> StepModel:
        return RemoteStep("python:tests.backend.remote_toys:table:nothing", "twin")

    second.second = replace(second.second, make=make)
    with opened(kitchen, second, monkeypatch) as engine:
        notices: list[Notice] = []
        end = time.monotonic() + PATIENCE_SECONDS
        said = False
        while not said and time.monotonic() < end:  # until the process has said so; before, that it is being started
            got = told(engine, ASKED)
            assert got.token_ids == plain
            notices += got.notices
            said = any("cannot open nothing: there is no such draft" in notice.message for notice in notices)
        assert said
        assert {notice.code for notice in notices} == {RAISED}
