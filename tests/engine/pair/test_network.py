"""One network for all requests: opened once, on the spot or in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from edgespec.backend.remote import RemoteStep
from edgespec.engine.pair.network import Network
from edgespec.errors import EngineFailure
from edgespec.spec.step import StepModel
from tests.backend.remote_toys import TableStep
from tests.draft.near_draft import good
from tests.draft.toy_step import ToyStep

PATIENCE_SECONDS = 60.0


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_in_this_process_it_is_opened_at_once_and_only_then() -> None:
    made: list[ToyStep] = []

    def make() -> StepModel:
        made.append(good())
        return made[-1]

    network = Network(make)
    network.hurry(True)
    network.close()
    assert not network.is_made
    network.open()
    network.hurry(False)
    trunk = network.trunk()
    assert trunk is not None
    assert trunk is network.trunk()
    assert network.is_made
    assert trunk.limits == made[0].limits
    assert len(made) == 1
    network.close()


def test_in_a_process_of_its_own_it_is_not_waited_for(tmp_path: Path) -> None:
    gate, others = tmp_path / "gate", psutil.Process().children()
    network = Network(lambda: RemoteStep(f"python:tests.backend.remote_toys:gated:{gate}"))
    with closing(network):
        network.open()
        assert network.is_made
        assert network.trunk() is None
        before = [child for child in psutil.Process().children() if child not in others]
        gate.touch()
        until(lambda: network.trunk() is not None)
        trunk = network.trunk()
        assert trunk is not None
        assert trunk.limits == TableStep.limits
    assert not any(psutil.pid_exists(child.pid) for child in before)


def test_what_is_wrong_with_it_is_said_when_it_is_wanted() -> None:
    n_tried = 0

    def make() -> StepModel:
        nonlocal n_tried
        n_tried += 1
        if n_tried < 3:
            raise EngineFailure("the draft", "it is broken", "mend it")
        return good()

    network = Network(make)
    network.open()
    assert not network.is_made
    with pytest.raises(EngineFailure, match="it is broken"):
        network.trunk()
    assert network.trunk() is not None
