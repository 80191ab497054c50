"""The whole measurement on toy models: every way answers, every key is there, and what is predicted follows from it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgespec.backend.cores import affinity
from edgespec.events import RoundReport
from edgespec.spec.latency import Placement
from tools.make_toy_model import write_toy_model
from tools.two_arms import Answered, Way
from tools.two_devices import main, survivals

KEYS = {
    *(way.value for way in Way),
    *("predicted", "kappa", "kappa_draft", "hit_rate", "chosen", "why", "accepted", "tokens_per_pass", "identical"),
    *("n_answers", "draft", "machine", "reading_seconds"),
}


def test_every_way_is_measured_and_predicted(toy: Path, questions: Path, tmp_path: Path) -> None:
    twin = write_toy_model(tmp_path / "twin.gguf")
    arguments = [str(toy), "--draft", str(twin), "--prompts", str(questions), "--n-prompts", "2", "--max-tokens", "16"]
    before = affinity()
    done = CliRunner().invoke(main, [*arguments, "--ctx-size", "512", "--json"])
    if len(before) < 2:
        assert (done.exit_code, "two devices need two" in done.stderr) == (13, True)
        return
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found) == KEYS
    assert set(found["predicted"]) == {way.value for way in Way}
    assert all(found[way.value] > 0.0 and found["predicted"][way.value] > 0.0 for way in Way)
    assert found["n_answers"] == 2
    assert found["identical"]["plain"] == 2
    assert found["chosen"] in [one.value for one in Placement]
    assert len(found["why"]) == 2
    assert affinity() == before
    if hasattr(os, "sched_getaffinity"):
        assert os.sched_getaffinity(0) == set(before)


def test_a_draft_that_does_not_fit_is_a_sentence(toy: Path, questions: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, [str(toy), "--draft", str(tmp_path / "none.gguf"), "--prompts", str(questions)])
    assert done.exit_code == 3
    assert "none.gguf" in done.stderr
    assert "Traceback" not in done.output


def report(n_drafted: int, n_accepted: int) -> RoundReport:
    tokens = (1,) * (n_accepted + 1)
    return RoundReport(1 + n_drafted, 0, n_drafted, n_accepted, tokens, ("",) * len(tokens), 0.0, 0.0, 0.0)


def test_survivals_count_only_what_was_reached() -> None:
    rounds = [report(2, 2)] * 6 + [report(2, 0)] * 2 + [report(1, 1)] * 2
    found = survivals([Answered((1,) * 9, 1.0, 0.0, tuple(rounds))])
    assert list(found) == pytest.approx([0.8])
    more = survivals([Answered((1,) * 9, 1.0, 0.0, tuple(rounds * 2))])
    assert list(more) == pytest.approx([0.8, 0.8])
    assert survivals([]) == (0.5,)
