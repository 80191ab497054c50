from __future__ import annotations

import json
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from click.testing import CliRunner

from edgespec.engine import CancelToken
from edgespec.events import RoundReport
from edgespec.spec.ports import Commit, Plan
from edgespec.spec.tree import check_tree, leaves
from tools.overhead import CASES, N_WARM_UP, Case, DecodeClock, StagedDrafter, Stopwatch, main

DRAFTED = [case for case in CASES if case.parents]


@pytest.mark.parametrize("case", DRAFTED, ids=lambda case: case.name)
def test_true_lines_lead_from_the_root(case: Case) -> None:
    for line in case.true_lines:
        assert [case.parents[node] for node in line] == [-1, *line[:-1]][: len(line)]


@pytest.mark.parametrize("case", DRAFTED, ids=lambda case: case.name)
def test_drafts_have_the_shape_and_carry_the_truth(case: Case) -> None:
    truth = list(range(1000, 1400))
    drafter = StagedDrafter(case, truth, 49152)
    n_seen = 0
    for line in case.true_lines * 2:
        tree = drafter.propose(0, Plan(8, 4))
        check_tree(tree, 49152)
        assert len(tree) == 8
        assert len(leaves(tree)) == (4 if "tree" in case.name else 1)
        assert tree.tokens[list(line)].tolist() == truth[n_seen : n_seen + len(line)]
        assert not set(np.delete(tree.tokens, list(line)).tolist()) & set(truth)
        emitted = np.array(truth[n_seen : n_seen + len(line) + 1], np.int32)
        drafter.observe(0, Commit(np.array(line, np.int32), emitted), None, np.arange(8, dtype=np.int32))  # type: ignore[arg-type]
        n_seen += len(emitted)


def test_the_clock_counts_llama_decode_and_puts_it_back() -> None:
    before = llama_cpp.llama_decode
    clock = DecodeClock()
    with clock.installed():
        assert llama_cpp.llama_decode is not before
    assert llama_cpp.llama_decode is before
    assert clock.seconds == 0.0


def test_the_stopwatch_leaves_out_the_warm_up_and_the_decoding_and_then_cancels() -> None:
    clock, cancel = DecodeClock(), CancelToken()
    watch = Stopwatch(3, clock, cancel, None)
    report = RoundReport(1, 0, 0, 0, (5, 6), ("", ""), 0.0, 0.0, 0.0)
    for i in range(N_WARM_UP + 3):
        assert not cancel.cancelled, i
        clock.seconds += 100.0
        watch.on_round(report)
    assert cancel.cancelled
    assert watch.decodes == pytest.approx([100.0] * 3)
    assert all(-100.0 < overhead < -99.0 for overhead in watch.overheads)
    assert watch.tokens == [2, 2, 2]


def test_a_run(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    arguments = ["--model", str(toy), "--threads", "1", "--context", "200", "--n-rounds", "20", "--json", str(out)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 1 + len(CASES)
    written = {one["case"]: one for one in json.loads(out.read_text(encoding="utf-8"))}
    assert set(written) == {case.name for case in CASES}
    assert all(one["n_rounds"] == 20 for one in written.values())
    assert all(0.0 < one["q1_ms"] <= one["median_ms"] <= one["q3_ms"] for one in written.values())
    assert written["plain, greedy"]["tokens_per_pass"] == 1.0
    assert written["chain of 8, greedy"]["tokens_per_pass"] > 2.0
    assert written["tree of 8 with 4 leaves, greedy"]["tokens_per_pass"] > 2.0


def test_profile_names_functions(toy: Path) -> None:
    arguments = ["--model", str(toy), "--threads", "1", "--context", "50", "--n-rounds", "5", "--only", "plain, greedy"]
    result = CliRunner().invoke(main, [*arguments, "--profile"])
    assert result.exit_code == 0, result.output
    assert "function calls" in result.stderr
