from __future__ import annotations

import json
from pathlib import Path

import llama_cpp
import pytest
from click.testing import CliRunner

from edgespec.events import RoundReport
from tools.overhead import N_COUNTED, N_WARM_UP, DecodeClock, Stopwatch, main
from tools.staged import CASES


def test_the_clock_counts_llama_decode_and_puts_it_back() -> None:
    before = llama_cpp.llama_decode
    clock = DecodeClock()
    with clock.installed():
        assert llama_cpp.llama_decode is not before
    assert llama_cpp.llama_decode is before
    assert (clock.wall, clock.cpu) == (0.0, 0.0)


def test_the_stopwatch_leaves_out_the_warm_up_and_the_decoding_and_then_cancels() -> None:
    clock = DecodeClock()
    watch = Stopwatch(clock)
    report = RoundReport(1, 0, 0, 0, (5, 6), ("", ""), 0.0, 0.0, 0.0)
    for _ in range(2):
        cancel = watch.next_answer()
        for i in range(N_WARM_UP + N_COUNTED):
            assert not cancel.cancelled, i
            clock.wall += 100.0
            clock.cpu += 200.0
            watch.on_round(report)
        assert cancel.cancelled
        watch.on_round(report)  # the worker may run another one before it sees the cancel
    assert watch.decodes == pytest.approx([100.0] * 2 * N_COUNTED)
    assert all(-100.0 < overhead < -99.0 for overhead in watch.overheads)
    assert all(-200.0 < overhead < -199.0 for overhead in watch.cpu_overheads)
    assert watch.tokens == [2] * 2 * N_COUNTED


def test_a_run(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    arguments = ["--model", str(toy), "--threads", "1", "--context", "200", "--n-rounds", "20", "--json", str(out)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 1 + len(CASES)
    written = {one["case"]: one for one in json.loads(out.read_text(encoding="utf-8"))}
    assert set(written) == {case.name for case in CASES}
    assert all(one["n_rounds"] == 2 * N_COUNTED for one in written.values())
    assert all(0.0 < one["q1_ms"] <= one["median_ms"] <= one["q3_ms"] for one in written.values())
    assert written["plain, greedy"]["tokens_per_pass"] == 1.0
    assert written["chain of 8, greedy"]["tokens_per_pass"] > 2.0
    assert all(written[name]["tokens_per_pass"] > 2.0 for name in written if name.startswith("tree"))


def test_profile_names_functions(toy: Path) -> None:
    arguments = ["--model", str(toy), "--threads", "1", "--context", "50", "--n-rounds", "1", "--only", "plain, greedy"]
    result = CliRunner().invoke(main, [*arguments, "--profile"])
    assert result.exit_code == 0, result.output
    assert "function calls" in result.stderr
