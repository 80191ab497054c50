"""The doctor over toy models of every kind: each of these causes is really there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edgespec.backend import machine
from edgespec.backend.llama.native import library_fingerprint
from edgespec.cli.doctor import ASKED_TOKENS, doctor
from edgespec.cli.main import Commands
from edgespec.cli.predict import predict
from edgespec.config import cache_dir
from edgespec.engine import EngineOptions
from edgespec.engine.choosing import cache_shape, wanted_settings
from edgespec.library.header import read_header
from edgespec.library.memory import MARGIN, estimate
from edgespec.spec.cost import CostTable
from edgespec.spec.policy import Reason
from edgespec.tune.store import Forced, save_tuning, tuning_records
from edgespec.tune.tuning import Tuning
from tests.doctor.cases import FLAT, STEEP, tuning, tuning_by_length
from tools.make_toy_model import Kind, write_toy_model

REPEATS = "the river runs under the bridge and the river runs under the"
SHORT = CostTable((256,), (1, 2), ((0.010, 0.011),), is_partial=True)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgespec.cli.doctor.WINDOW_SECONDS", 0.05)


@pytest.fixture
def tuned(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The toy in a home where a tuning of it is stored, for one thread."""
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    store(toy, tuning(FLAT))
    return toy


def store(path: Path, found: Tuning) -> None:
    save_tuning(path, library_fingerprint(), Forced(threads=1), tuning_records(), found)


def invoke(*arguments: object) -> Result:
    """As `edgespec doctor`, its errors leaving as they do from the whole command."""
    return run("doctor", *arguments)


def run(*arguments: object) -> Result:
    group = Commands("edgespec", commands=[doctor, predict], context_settings={"auto_envvar_prefix": "EDGESPEC"})
    result = CliRunner().invoke(group, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def told(*arguments: object) -> dict[str, Any]:
    result = invoke("--json", *arguments)
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    parsed = json.loads(result.stdout)
    assert isinstance(parsed, dict)
    # Whether somebody else works on this machine is not for a test to decide.
    parsed["reasons"] = [one for one in parsed["reasons"] if one["code"] not in ("cores-taken", "slow-now")]
    return parsed


def codes(*arguments: object) -> list[str]:
    return [one["code"] for one in told(*arguments)["reasons"]]


def test_a_new_model_is_not_tuned(toy: Path) -> None:
    got = told(toy)
    assert (got["drafter"], [one["code"] for one in got["reasons"]]) == ("off", ["not-tuned"])
    assert got["reasons"][0]["remedy"].startswith("run 'edgespec tune'")
    assert got["settings"]["origin"] == "forced"
    assert got["settings"]["forced"] == ["--threads 1"]
    assert (got["table"], got["model"]["architecture"]) == (None, "llama")


def test_a_tuned_model_drafts(tuned: Path) -> None:
    got = told(tuned)
    assert (got["drafter"], got["reasons"], got["settings"]["origin"]) == ("lookup", [], "tuned")
    assert got["table"]["seconds"]["16"] == 0.02
    assert [one["rows"] for one in got["break_even"]] == [2, 4, 8, 16]
    (lookup,) = got["drafters"]
    assert lookup["speedup"] > 1.2
    result = invoke(tuned)
    assert "lookup, wherever it pays" in result.stdout
    assert "what keeps it" not in result.stdout.replace("what keeps it from drafting more:\n  cores-taken", "")


@pytest.mark.parametrize(
    ("found", "arguments", "code"),
    [
        (tuning(FLAT), ["--draft", "off"], "draft-off"),
        (tuning(FLAT), ["--max-tokens", 1], "short-answer"),
        (tuning(FLAT), ["--context", 510], "limit"),
        (tuning(STEEP), [], "steep-curve"),
        (tuning(FLAT, width_class=(1,)), ["--exact"], "narrow-class"),
        (tuning(SHORT), [], "unmeasured"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_flags_and_tables_say(tuned: Path, found: Tuning, arguments: list[object], code: str) -> None:
    store(tuned, found)
    assert codes(tuned, *arguments)[0] == code


@pytest.mark.parametrize("context", [100, 362, 363, 500])
def test_the_doctor_and_predict_speak_of_the_same_settings(tuned: Path, context: int) -> None:
    store(tuned, tuning_by_length())
    got = told(tuned, "--context", context)
    predicted = json.loads(run("predict", tuned, "--table", "--json", "--context", context).stdout)
    assert [one["rows"] for one in got["break_even"]] == predicted["table"]["widths"]
    assert [one["acceptance"] for one in got["break_even"]] == predicted["table"]["break_even_acceptances"]
    assert got["settings"]["flash_attention"] == ("on" if context <= 362 else "off")
    assert [one["up_to"] for one in got["choices"]] == [362, None]


def test_an_answer_is_explained_with_the_settings_for_its_own_length(tuned: Path) -> None:
    store(tuned, tuning_by_length())
    prompt = REPEATS * 30
    got = told(tuned, "--ask", prompt, "--max-tokens", 8)
    length = got["asked"]["prompt_tokens"] + 8
    assert length > 362
    assert (got["table"]["context"], got["settings"]["flash_attention"]) == (length, "off")
    assert got["asked"]["settings"] == {key: got["settings"][key] for key in got["asked"]["settings"]}
    forced = told(tuned, "--ask", prompt, "--max-tokens", 8, "--context", 100)
    assert (forced["table"]["context"], forced["settings"]["flash_attention"]) == (100, "on")
    assert forced["asked"]["settings"]["flash_attention"] == "off"


def test_the_threads_of_the_answer_are_told(toy: Path) -> None:
    pace = told(toy, "--threads", 2, "--ask", "hello", "--max-tokens", 8)["pace"]
    assert pace["n_wanted"] == 2
    assert set(pace) >= {"n_threads", "n_cores", "taken", "n_aborted", "n_steps_down"}
    assert told(toy, "--ask", "hello", "--max-tokens", 8)["pace"] is None  # one thread is never taken back


def test_an_exact_answer_tells_the_class_that_was_unknown_before(tuned: Path) -> None:
    store(tuned, tuning(FLAT, width_class=()))
    rest = told(tuned, "--exact")
    assert (rest["width_class"], len(rest["table"]["seconds"])) == (None, 5)
    assert "is found at the first exact answer" in invoke(tuned, "--exact").stdout
    asked = told(tuned, "--exact", "--ask", "hello", "--max-tokens", 8)
    assert asked["width_class"]
    assert set(map(int, asked["table"]["seconds"])) <= set(asked["width_class"]) | {1}


def test_where_drafting_is_switched_off_is_named(tuned: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (flag,) = told(tuned, "--draft", "off")["reasons"]
    assert "--draft" in flag["evidence"]
    monkeypatch.setenv("EDGESPEC_DRAFT", "off")
    (variable,) = told(tuned)["reasons"]
    assert "EDGESPEC_DRAFT" in variable["evidence"]
    monkeypatch.delenv("EDGESPEC_DRAFT")
    monkeypatch.setenv("EDGESPEC_RUN_DRAFT", "off")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('[chat]\ndraft = "off"\n', encoding="utf-8")
    got = told(tuned)
    (elsewhere,) = got["reasons"]
    assert "'chat' in config.toml" in elsewhere["evidence"]
    assert "'run' by EDGESPEC_RUN_DRAFT" in elsewhere["evidence"]
    assert got["drafter"] == "lookup"


def test_a_prediction_is_the_first_drafter(tuned: Path, tmp_path: Path) -> None:
    predicted = tmp_path / "predicted.txt"
    predicted.write_text("the text", encoding="utf-8")
    got = told(tuned, "--predict", predicted)
    assert (got["drafter"], [one["name"] for one in got["drafters"]]) == ("given", ["given", "lookup"])
    assert told(tuned, "--predict", predicted, "--draft", "off")["drafter"] == "given"


@pytest.mark.parametrize("kind", [Kind.MAMBA, Kind.JAMBA])
@pytest.mark.parametrize("more", [[], ["--ask", "hello", "--max-tokens", 8]], ids=["rest", "asked"])
def test_a_running_state_cannot_be_rolled_back(tmp_path: Path, kind: Kind, more: list[object]) -> None:
    path = write_toy_model(tmp_path / f"{kind.value}.gguf", kind=kind)
    assert "no-rollback" in codes(path, *more)


def test_a_small_window_cache_is_no_place_for_exact_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is memory for little more than the windows."""
    monkeypatch.setenv("EDGESPEC_CTX_SIZE", "4096")
    path = write_toy_model(tmp_path / "gemma.gguf", kind=Kind.GEMMA3)
    header, options = read_header(path), EngineOptions(threads=1)
    wanted = wanted_settings(header, options)
    small = estimate(header, cache_shape(header, wanted.windowed())).total_bytes(wanted.n_ctx)
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: int(small / (1.0 - MARGIN)) + 64)
    assert {"windowed-exact", "windowed-cache"} <= set(codes(path, "--exact"))
    assert "windowed-exact" not in codes(path)


def test_what_was_tuned_counts_also_for_a_cache_that_had_to_be_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    monkeypatch.setenv("EDGESPEC_CTX_SIZE", "4096")
    path = write_toy_model(tmp_path / "gemma.gguf", kind=Kind.GEMMA3)
    store(path, tuning(FLAT))
    assert codes(path) == []
    header = read_header(path)
    wanted = wanted_settings(header, EngineOptions(threads=1))
    small = estimate(header, cache_shape(header, wanted.windowed())).total_bytes(wanted.n_ctx)
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: int(small / (1.0 - MARGIN)) + 64)
    assert codes(path) == ["windowed-cache"]


def test_a_build_that_crashes_with_extra_buffers(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    told(toy)
    trials = cache_dir() / "trials.json"
    trials.write_text(trials.read_text("utf-8").replace('"works"', '"died"'), "utf-8")
    assert "settings-died" in codes(toy)
    assert "settings-died" in codes(toy, "--ask", "hello", "--max-tokens", 4)


def test_an_answer_is_counted_and_not_printed(tuned: Path) -> None:
    got = told(tuned, "--ask", REPEATS, "--max-tokens", 40)
    assert got["asked"]["completion_tokens"] == 40
    assert got["asked"]["prompt_tokens"] > 10
    assert sum(got["asked"]["rounds"].values()) > 0
    assert set(got["asked"]["rounds"]) <= {one.value for one in Reason}
    assert got["load"] > 0.0
    assert got["ledger"]["headroom_seconds"] is not None
    result = invoke(tuned, "--ask", REPEATS, "--max-tokens", 40)
    assert "40 of answer" in result.stdout
    assert "rounds: " in result.stdout
    assert "load      passes take" in result.stdout


def test_an_answer_is_short_unless_asked_otherwise(toy: Path) -> None:
    assert told(toy, "--ask", "hello")["asked"]["completion_tokens"] == ASKED_TOKENS


def test_a_prompt_that_repeats_nothing_is_no_match(tuned: Path) -> None:
    assert "no-match" in codes(tuned, "--ask", "a", "--max-tokens", 6, "--draft", "lookup")


def test_where_nothing_is_measured_an_answer_is_plain_unless_a_drafter_is_named(toy: Path) -> None:
    untuned = told(toy, "--ask", REPEATS, "--max-tokens", 60)
    assert (untuned["drafter"], untuned["asked"]["drafted"], untuned["load"]) == ("off", 0, None)
    named = told(toy, "--ask", REPEATS, "--max-tokens", 60, "--draft", "lookup")
    assert (named["drafter"], named["asked"]["drafted"] > 0) == ("lookup", True)
    assert [one["code"] for one in named["reasons"]] == ["not-tuned"]


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [(["missing.gguf"], 3), (["--draft", "lokup"], 2), (["--max-tokens", 0], 13), (["--context", 0], 2)],
)
def test_what_cannot_be_is_refused(toy: Path, arguments: list[object], exit_code: int) -> None:
    result = invoke(*arguments) if arguments[0] == "missing.gguf" else invoke(toy, *arguments)
    assert result.exit_code == exit_code
    assert result.stdout == ""
