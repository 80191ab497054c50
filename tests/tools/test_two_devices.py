"""The whole measurement on toy models: every way answers, every key is there, and what is predicted follows from it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from click.testing import CliRunner

from edgespec.backend.cores import affinity
from edgespec.spec.latency import Placement
from tools.make_toy_model import write_toy_model
from tools.two_arms import Way
from tools.two_devices import main

KEYS = {
    *(way.value for way in Way),
    *("predicted", "kappa", "kappa_draft", "hit_rate", "chosen", "why", "accepted", "tokens_per_pass", "identical"),
    *("n_answers", "draft", "machine", "reading_seconds"),
    *("foreseen", "top1", "survivals", "ranks", "n_warm_up"),
}


def test_every_way_is_measured_and_predicted(toy: Path, questions: Path, tmp_path: Path) -> None:
    drafts = [str(write_toy_model(tmp_path / f"{name}.gguf", seed=seed)) for name, seed in (("twin", 0), ("other", 7))]
    arguments = [str(toy), "--draft", drafts[0], "--draft", drafts[1], "--prompts", str(questions)]
    arguments += ["--n-prompts", "2", "--warm-up", "1", "--max-tokens", "16"]
    before = affinity()
    done = CliRunner().invoke(main, [*arguments, "--ctx-size", "512", "--json"])
    if len(before) < 2:
        assert (done.exit_code, "two devices need two" in done.stderr) == (13, True)
        return
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    others = found.pop("others")
    assert [one["draft"] for one in (found, *others)] == ["twin", "other"]
    for one in (found, *others):
        assert set(one) == KEYS
        for predicted in (one["predicted"], one["foreseen"]):
            assert set(predicted) == {way.value for way in Way}
            assert all(one[way.value] > 0.0 and predicted[way.value] > 0.0 for way in Way)
        assert (one["n_answers"], one["n_warm_up"]) == (2, 1)
        assert one["identical"]["plain"] == 2
        assert one["chosen"] in [placement.value for placement in Placement]
        assert len(one["why"]) == 2
    assert found["top1"] > others[0]["top1"]
    assert found["survivals"][0] > others[0]["survivals"][0]
    assert affinity() == before
    if hasattr(os, "sched_getaffinity"):
        assert os.sched_getaffinity(0) == set(before)


def test_a_size_is_drafted_in_every_round(toy: Path, questions: Path, tmp_path: Path) -> None:
    if len(affinity()) < 2:
        return
    twin = write_toy_model(tmp_path / "twin.gguf")
    arguments = [str(toy), "--draft", str(twin), "--prompts", str(questions), "--n-prompts", "1", "--max-tokens", "17"]
    done = CliRunner().invoke(main, [*arguments, "--warm-up", "0", "--ctx-size", "512", "--size", "3", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["tokens_per_pass"]["plain"] == 1.0
    for way in ("serial_one", "serial"):
        assert found["accepted"][way] > 0.9
        assert found["tokens_per_pass"][way] > 3.0


def test_a_draft_that_does_not_fit_is_a_sentence(toy: Path, questions: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, [str(toy), "--draft", str(tmp_path / "none.gguf"), "--prompts", str(questions)])
    assert done.exit_code == 3
    assert "none.gguf" in done.stderr
    assert "Traceback" not in done.output


def test_the_table_says_what_does_not_count(toy: Path, questions: Path, tmp_path: Path) -> None:
    if len(affinity()) < 2:
        return
    twin = write_toy_model(tmp_path / "twin.gguf")
    arguments = [str(toy), "--draft", str(twin), "--prompts", str(questions), "--n-prompts", "1", "--max-tokens", "16"]
    done = CliRunner().invoke(main, [*arguments, "--warm-up", "1", "--ctx-size", "512"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "twin drafting, 1 answers each after 1 that do not count, decoding only" in done.stdout
    assert "chosen beforehand: " in done.stdout
