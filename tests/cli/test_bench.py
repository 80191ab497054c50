from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edgespec.backend.llama.native import library_fingerprint
from edgespec.bench import baseline, measure, session
from edgespec.bench.measure import measured
from edgespec.bench.runs import Measured
from edgespec.cli.bench import bench
from edgespec.cli.main import Commands
from edgespec.engine.choosing import forced_by
from edgespec.engine.options import EngineOptions
from edgespec.spec.cost import CostTable
from edgespec.tune.store import save_tuning, tuning_records
from tests.bench.made import tuning

Bench = Callable[..., Result]

TEXT = "the river runs under the bridge and the river runs under the bridge and the river"


@pytest.fixture
def bench_() -> Bench:
    group = Commands("edgespec")
    group.add_command(bench)

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(group, ["bench", *map(str, arguments)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    lines = [{"category": name, "turns": [f"{name}{i} {TEXT}"]} for i in range(3) for name in ("prose", "song")]
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return path


def parsed(result: Result) -> dict[str, Any]:
    """The JSON object, which must be all there is on stdout."""
    assert result.exit_code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


def options(prompts: Path, *more: object) -> list[object]:
    return ["--prompts", prompts, "--per-category", 2, "--max-tokens", 16, "--repeat", 2, *more]


def test_json_has_every_category_and_draft(bench_: Bench, toy: Path, prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    found = parsed(bench_(toy, *options(prompts, "--drafts", "lookup", "--out", out, "--json")))
    assert set(found["by_category"]) == {"prose", "song"}
    for by_draft in (*found["by_category"].values(), found["overall"]):
        assert list(by_draft) == ["off", "lookup"]
        for one in by_draft.values():
            assert {"tokens_per_second", "speedup", "tokens_per_pass", "low", "high", "n_tokens", "acceptance"} <= set(
                one
            )
            assert one["tokens_per_second"] > 0
    assert found["overall"]["off"]["n_tokens"] == 2 * 2 * 2 * 16
    assert found["overall"]["off"]["speedup"] == found["overall"]["off"]["total_time_ratio"] == 1.0
    assert found["overall"]["lookup"]["total_low"] <= found["overall"]["lookup"]["total_high"]
    assert found["overall"]["off"]["tokens_per_pass"] == 1.0
    assert found["complete"] is True
    assert found["machine"]["settings"]["n_threads"] == 1
    assert found["machine"]["line"].count(" · ") == 3
    assert len((out / "answers.jsonl").read_text().splitlines()) == 2 * 2 * 2 * 2


def test_exact_answers_are_equal(bench_: Bench, toy: Path, prompts: Path) -> None:
    found = parsed(bench_(toy, *options(prompts, "--drafts", "lookup", "--exact", "--json", "--temperature", 0.8)))
    assert found["overall"]["lookup"]["same_text"] == 1.0
    assert Path(found["folder"]).parent.name == "bench"


def test_the_table_and_going_on(bench_: Bench, toy: Path, prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = options(prompts, "--drafts", "off,lookup", "--out", out)
    result = bench_(toy, *arguments)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["drafts", "tok/s", "speed-up"]
    assert [line.split()[0] for line in lines if line and not line.startswith(" ")] == [
        *("prose", "song", "all", "without", "tok/s,"),
        lines[-1].split()[0],
    ]
    assert "are of decoding" in lines[-2]
    assert "load at the end" in lines[-1]
    assert str(out) in result.stderr
    kept = (out / "answers.jsonl").read_text()
    with (out / "answers.jsonl").open("a") as stream:
        stream.write('{"cut": ')
    again = bench_(toy, *arguments)
    assert again.exit_code == 0
    assert again.stdout.splitlines()[:-1] == lines[:-1]
    assert "passed over: 1" in again.stderr
    assert (out / "answers.jsonl").read_text() == kept + '{"cut": \n'
    other = bench_(toy, *arguments, "--max-tokens", 8)
    assert other.exit_code == 13
    assert "other max_tokens" in other.stderr


def test_ctrl_c_shows_what_there_is_and_the_rest_comes_later(
    bench_: Bench, toy: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_answers = 0

    def press(*arguments: Any) -> Measured:
        nonlocal n_answers
        n_answers += 1
        if n_answers == 3:  # in the second turn
            signal.raise_signal(signal.SIGINT)
        return measured(*arguments)

    arguments = options(prompts, "--drafts", "lookup", "--out", tmp_path / "run", "--json")
    with monkeypatch.context() as patched:
        patched.setattr(measure, "measured", press)
        result = bench_(toy, *arguments)
    assert result.exit_code == 130
    found = json.loads(result.stdout)
    assert found["complete"] is False
    assert list(found["by_category"]) == ["prose"]
    assert parsed(bench_(toy, *arguments))["overall"]["lookup"]["n_pairs"] == 8


def test_ctrl_c_before_anything_was_measured(
    bench_: Bench, toy: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_arguments: object) -> Measured:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    monkeypatch.setattr(measure, "measured", press)
    result = bench_(toy, *options(prompts))
    assert result.exit_code == 11
    assert "nothing was measured" in result.stderr


def test_the_library_s_defaults_are_one_more_row(bench_: Bench, toy: Path, prompts: Path) -> None:
    found = parsed(bench_(toy, *options(prompts, "--drafts", "off", "--baseline", "defaults", "--json")))
    assert list(found["overall"]) == ["off", "defaults"]
    defaults = found["overall"]["defaults"]
    assert defaults["same_text"] == 1.0
    assert defaults["n_tokens"] == found["overall"]["off"]["n_tokens"]


def test_a_library_that_dies_ends_it_in_one_sentence(
    bench_: Bench, toy: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "tests.bench.fake_library", "dies@asked"]
    monkeypatch.setattr(baseline, "library_command", lambda _path, _settings: command)
    result = bench_(toy, *options(prompts, "--drafts", "off", "--baseline", "defaults"))
    assert result.exit_code == 11
    assert "--baseline defaults: the library's process died: out of tiles; leave it out" in " ".join(
        result.stderr.split()
    )


def test_ledgers_are_kept_and_replayed_when_asked(bench_: Bench, toy: Path, prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    found = parsed(bench_(toy, *options(prompts, "--out", out, "--journal", "--json")))
    assert found["ledger"] == {}  # nothing was measured of this model, so there is no ledger
    assert "edgespec tune" in bench_(toy, *options(prompts, "--out", out)).stderr


def test_a_measured_model_drafts_and_its_ledger_is_there(
    bench_: Bench, toy: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    # Wide passes at the price of narrow ones: whatever is guessed is worth a try.
    table = CostTable((0,), (1, 2, 4, 8), ((0.0010, 0.0010, 0.0010, 0.0010),))
    wishes = forced_by(EngineOptions(threads=1))
    save_tuning(toy, library_fingerprint(), wishes, tuning_records(), tuning(table))
    out = tmp_path / "run"
    result = bench_(toy, *options(prompts, "--drafts", "auto", "--out", out, "--journal", "--json"))
    found = parsed(result)
    assert "edgespec tune" not in result.stderr
    auto = found["overall"]["auto"]
    assert auto["plain_estimate"] > 0
    entries = (out / "ledger-auto-1.jsonl").read_text().splitlines()
    n_rounds = sum(json.loads(entry)[-1] for entry in entries)
    assert list(found["ledger"]) == ["auto"]
    assert found["ledger"]["auto"]["rounds"] == n_rounds >= auto["n_tokens"] / auto["tokens_per_pass"] - 1
    text = bench_(toy, *options(prompts, "--drafts", "auto", "--out", out)).stdout
    assert f"ledger of auto: {n_rounds} rounds replayed" in text


def test_acceptance_by_match_length_has_a_table(bench_: Bench, toy: Path, prompts: Path, tmp_path: Path) -> None:
    arguments = options(prompts, "--drafts", "recycle,lookup", "--max-tokens", 100, "--out", tmp_path / "run")
    found = parsed(bench_(toy, *arguments, "--json"))
    one = found["overall"]["recycle"]
    assert sum(bucket["n_tried"] for bucket in one["by_match_length"]) > 0, one
    assert "accepted, of, by match length" in bench_(toy, *arguments).stdout


def test_another_tuning_is_another_measurement(
    bench_: Bench, toy: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    arguments = options(prompts, "--drafts", "off", "--out", tmp_path / "run")
    assert bench_(toy, *arguments).exit_code == 0
    wishes = forced_by(EngineOptions(threads=1))
    prices = CostTable((0,), (1, 2), ((0.001, 0.002),))
    save_tuning(toy, library_fingerprint(), wishes, tuning_records(), tuning(prices))
    result = bench_(toy, *arguments)
    assert result.exit_code == 13
    assert "tuning" in result.stderr


def test_other_code_is_another_measurement(
    bench_: Bench, toy: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = options(prompts, "--drafts", "off", "--out", tmp_path / "run")
    assert bench_(toy, *arguments).exit_code == 0
    monkeypatch.setattr(session, "code_fingerprint", lambda: "0.0|changed")
    result = bench_(toy, *arguments)
    assert result.exit_code == 13
    assert "other code" in result.stderr


def test_the_model_of_the_environment_is_taken(
    bench_: Bench, toy: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESPEC_MODEL", str(toy))
    assert parsed(bench_(*options(prompts, "--drafts", "off", "--json")))["machine"]["model"] == "toy"


def test_what_cannot_be_is_said_before_a_model_is_opened(bench_: Bench, prompts: Path, tmp_path: Path) -> None:
    for arguments, exit_code, complaint in (
        (["--prompts", tmp_path / "none"], 13, "none"),
        (["--prompts", prompts, "--drafts", "magic"], 13, "draft 'magic'"),
        (["--prompts", prompts, "--temperature", "-1"], 13, "temperature"),
        (["--prompts", prompts, "--repeat", "0"], 2, "--repeat"),
        (["--prompts", prompts, "--plot", tmp_path / "no" / "folder.png"], 13, "--plot"),
        ([], 2, "--prompts"),
    ):
        result = bench_("no-such-model", *arguments)
        assert (result.exit_code, complaint in result.stderr) == (exit_code, True), result.stderr


def test_prompts_that_do_not_fit_are_left_out_or_refused(bench_: Bench, toy: Path, tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    long = {"category": "long", "prompt": "word " * 600}
    path.write_text(json.dumps(long) + "\n" + json.dumps({"category": "short", "prompt": TEXT}))
    result = bench_(toy, *options(path, "--json"))
    assert list(parsed(result)["by_category"]) == ["short"]
    assert "with the answer: 1" in result.stderr
    path.write_text(json.dumps(long))
    assert bench_(toy, *options(path)).exit_code == 7


def test_too_few_prompts_for_the_tokens_wanted_are_said(bench_: Bench, toy: Path, prompts: Path) -> None:
    result = bench_(toy, *options(prompts, "--drafts", "off", "--min-tokens", 10_000, "--json"))
    assert parsed(result)["overall"]["off"]["n_prompts"] == 6
    assert "for want of more prompts" in result.stderr


def test_a_picture_is_drawn(bench_: Bench, toy: Path, prompts: Path, tmp_path: Path) -> None:
    result = bench_(toy, *options(prompts, "--drafts", "lookup", "--plot", tmp_path / "p.png"))
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
