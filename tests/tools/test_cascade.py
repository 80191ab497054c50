"""Every way of drafting on toy models: the same text, and fewer passes for what is drafted."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from tools.cascade import Figures, best_part, main, ways
from tools.make_toy_model import write_toy_model


def test_every_way_is_measured(toy: Path, questions: Path, tmp_path: Path) -> None:
    middle = str(write_toy_model(tmp_path / "middle.gguf", seed=0))
    small = str(write_toy_model(tmp_path / "small.gguf", seed=7))
    arguments = [str(toy), "--middle", middle, "--small", small, "--prompts", str(questions), "--n-prompts", "2"]
    arguments += ["--max-tokens", "16", "--nodes", "2,5", "--ctx-size", "512"]
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    names = [way.name for way in ways(middle, small)]
    assert [(one["way"], one["n_nodes"]) for one in found["fixed"]] == [(name, n) for name in names for n in (2, 5)]
    assert all(one["same"] == 2 and 0.0 < one["passes_per_token"] <= 1.1 for one in found["fixed"])
    passes = {(one["way"], one["n_nodes"]): one["passes_per_token"] for one in found["fixed"]}
    assert passes["middle", 5] <= passes["middle", 2] < 0.5, "the middle model is the target's twin"
    assert passes["cascade", 5] == passes["middle", 5], "a cascade proposes what its network alone would"
    assert [one["way"] for one in found["own"]] == names[2:]
    shown = CliRunner().invoke(main, [*arguments, "--nodes", "2"])
    assert "best part in time" in shown.stdout


def test_the_best_part_has_no_more_time() -> None:
    def way(name: str, passes: float, seconds: float) -> Figures:
        return Figures(name, 7, passes, seconds, 0.9, 2.0, 100, 2)

    cascade = way("cascade", 0.4, 0.05)
    parts = [way("suffix", 0.8, 0.001), way("middle", 0.5, 0.04), way("middle", 0.35, 0.09), cascade]
    assert best_part(cascade, parts) == parts[1]
    assert best_part(way("cascade", 0.4, 0.0001), parts) is None


def test_lengths_are_counts(toy: Path, questions: Path) -> None:
    arguments = [str(toy), "--middle", "a", "--small", "b", "--prompts", str(questions), "--nodes", "0"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 13
    assert "--nodes 0" in done.stderr
