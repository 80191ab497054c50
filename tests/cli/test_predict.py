from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edgespec.backend.llama.native import library_fingerprint
from edgespec.backend.settings import LlamaSettings
from edgespec.cli.main import Commands
from edgespec.cli.predict import GRID, predict
from edgespec.engine.choosing import forced_by
from edgespec.engine.options import EngineOptions
from edgespec.spec.cost import CostTable
from edgespec.spec.predict import forecast
from edgespec.tune.store import save_tuning, tuning_records
from edgespec.tune.tuning import Choice, Tuned, Tuning
from tests.bench.made import tuning

Predict = Callable[..., Result]

SHORT = CostTable((0, 512), (1, 2, 4, 8), ((0.010, 0.011, 0.014, 0.020), (0.012, 0.014, 0.020, 0.030)))
LONG = CostTable((1024,), (1, 2, 4), ((0.020, 0.024, 0.030),))
ASKED = ("--acceptance", 0.7, "--width", 4)


@pytest.fixture
def predict_() -> Predict:
    group = Commands("edgespec")
    group.add_command(predict)

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(group, ["predict", *map(str, arguments)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def tuned(other_toy: Path) -> Path:
    """A model whose measurements are kept."""
    settings = LlamaSettings()
    choices = (Choice(600, Tuned(settings, SHORT, SHORT)), Choice(4096, Tuned(settings, LONG, LONG)))
    kept: Tuning = replace(tuning(SHORT), choices=choices)
    save_tuning(other_toy, library_fingerprint(), forced_by(EngineOptions(threads=1)), tuning_records(), kept)
    return other_toy


def parsed(result: Result) -> dict[str, Any]:
    """The JSON object, which must be all there is on stdout."""
    assert result.exit_code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


def test_figures_by_hand(predict_: Predict, tuned: Path) -> None:
    found = parsed(predict_(tuned, "--acceptance", 0.5, "--width", 4, "--context", 0, "--json"))
    assert found["tokens_per_pass"] == 1 + 0.5 + 0.25 + 0.125
    assert found["speedup"] == pytest.approx(1.875 / 1.4)
    assert found["leviathan_speedup"] == pytest.approx(1.875)
    # The line through (0, 1) nearest to the growths 0.1, 0.4, 1.0 at 1, 3 and 7 further rows.
    alpha = (1 * 0.1 + 3 * 0.4 + 7 * 1.0) / (1 + 9 + 49)
    assert found["textbook_speedup"] == pytest.approx(0.875 / (1 + 3 * alpha))
    needed = found["break_even_acceptance"]
    assert 1 + needed + needed**2 + needed**3 == pytest.approx(1.4)
    assert (found["rows"], found["n_drafted"], found["context"], found["acceptance"]) == (4, 3, 0, 0.5)


@pytest.mark.parametrize(("context", "table"), [(0, SHORT), (256, SHORT), (600, SHORT), (601, LONG), (9999, LONG)])
def test_it_is_the_forecast_of_the_table_for_that_context(
    predict_: Predict, tuned: Path, context: int, table: CostTable
) -> None:
    arguments = (*ASKED, "--context", context, "--draft-ms", 2, "--json")
    found, plain = parsed(predict_(tuned, *arguments)), forecast(table, context, 0.7, 3, 0.002)
    assert found["speedup"] == plain.speedup
    assert found["tokens_per_pass"] == plain.tokens_per_pass
    assert found["break_even_acceptance"] == plain.break_even_acceptance
    assert found["textbook_speedup"] == plain.textbook_speedup


def test_what_can_never_pay_is_null_and_never(predict_: Predict, tuned: Path) -> None:
    arguments = (tuned, *ASKED, "--draft-ms", 500)
    assert parsed(predict_(*arguments, "--json"))["break_even_acceptance"] is None
    assert "never" in predict_(*arguments).stdout


def test_the_text_names_every_formula(predict_: Predict, tuned: Path) -> None:
    result = predict_(tuned, *ASKED)
    assert result.exit_code == 0
    heading, *lines = result.stdout.splitlines()
    assert "3 drafted tokens" in heading
    assert "a pass of 4 rows takes 17.0 ms, of one row 11.0 ms (at 256 tokens of context)" in heading
    assert [line.split("  ")[0] for line in lines] == [
        "tokens per pass",
        "speed-up",
        "break-even acceptance",
        "textbook, linear",
        "textbook, Leviathan",
    ]
    assert "2.53 " in lines[0]
    assert "E[accepted] / (T_draft/T_decode + 1 + alpha n)" in lines[3]


def test_the_whole_grid(predict_: Predict, tuned: Path) -> None:
    found = parsed(predict_(tuned, "--table", "--context", 0, "--json"))
    assert list(found) == ["table"]
    grid = found["table"]
    assert (grid["acceptances"], grid["widths"]) == (list(GRID), [2, 4, 8])
    for acceptance, row in zip(GRID, grid["speedups"], strict=True):
        assert row == [forecast(SHORT, 0, acceptance, n, 0.0).speedup for n in (1, 3, 7)]
    assert grid["break_even_acceptances"][0] == pytest.approx(0.1)
    lines = predict_(tuned, "--table", "--context", 0).stdout.splitlines()
    assert lines[1].split() == ["acceptance", "2", "rows", "4", "rows", "8", "rows"]
    assert lines[2].split() == ["0.10", *(f"{value:.2f}" for value in grid["speedups"][0])]
    assert lines[-1].split()[0] == "break-even"
    assert len(lines) == 3 + len(GRID)


def test_both_at_once(predict_: Predict, tuned: Path) -> None:
    assert {"table", "speedup"} <= set(parsed(predict_(tuned, *ASKED, "--table", "--json")))
    assert "break-even acceptance" in predict_(tuned, *ASKED, "--table").stdout


def test_a_model_nobody_measured_is_an_error_of_its_own(predict_: Predict, toy: Path) -> None:
    result = predict_(toy, *ASKED)
    assert result.exit_code == 15
    assert result.stderr.splitlines() == [
        f"Error: what passes of toy cost: it was not measured on this machine yet; "
        f"run 'edgespec tune {toy} --threads 1'."
    ]
    assert result.stdout == ""
    flags = ("--threads", 2, "--gpu-layers", 0, "--ctx-size", 512)
    assert f"run 'edgespec tune {toy} --threads 2 --gpu-layers 0'" in predict_(toy, *ASKED, *flags).stderr


def test_the_model_of_the_environment_is_taken(predict_: Predict, tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_MODEL", str(tuned))
    assert parsed(predict_(*ASKED, "--json"))["speedup"] > 0.0


def test_one_thread_has_what_was_measured_beside_all(
    predict_: Predict, other_toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the engine takes it: nobody measured with --threads 1."""
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    kept = replace(tuning(SHORT), choices=(Choice(4096, Tuned(LlamaSettings(n_threads=2), SHORT, LONG)),))
    save_tuning(other_toy, library_fingerprint(), forced_by(EngineOptions()), tuning_records(), kept)
    found = parsed(predict_(other_toy, *ASKED, "--threads", 1, "--json"))
    assert found["speedup"] == forecast(LONG, 256, 0.7, 3).speedup


def test_a_width_between_measured_ones_takes_the_next_and_says_so(predict_: Predict, tuned: Path) -> None:
    arguments = (tuned, "--acceptance", 0.7, "--width", 6, "--context", 0)
    found = parsed(predict_(*arguments, "--json"))
    assert (found["rows"], found["priced_rows"]) == (6, 8)
    assert found["speedup"] == forecast(SHORT, 0, 0.7, 5).speedup
    heading = predict_(*arguments).stdout.splitlines()[0]
    assert "a pass of 6 rows takes 20.0 ms (not measured: as long as one of 8 rows), of one row 10.0 ms" in heading
    exact = (tuned, *ASKED)
    assert parsed(predict_(*exact, "--json"))["priced_rows"] == 4
    assert "not measured" not in predict_(*exact).stdout


def test_other_wishes_are_other_measurements(predict_: Predict, tuned: Path) -> None:
    assert predict_(tuned, *ASKED, "--threads", 2).exit_code == 15


def test_a_model_that_is_not_here_is_not_fetched(predict_: Predict) -> None:
    assert predict_("nowhere.gguf", *ASKED).exit_code == 3
    missing = predict_("hf:someone/something", *ASKED)
    assert missing.exit_code == 3
    assert "edgespec pull" in missing.stderr
    assert predict_("smollm2-135m", *ASKED).exit_code == 3


def test_a_curve_from_a_file(predict_: Predict, tmp_path: Path) -> None:
    path = tmp_path / "tune.json"
    curve = {"1": 0.01, "2": 0.011, "4": 0.014}
    path.write_text(json.dumps({"model": "some model", "curve": curve}))
    table = CostTable((0,), (1, 2, 4), ((0.01, 0.011, 0.014),))
    assert parsed(predict_("--curve", path, *ASKED, "--json"))["speedup"] == forecast(table, 256, 0.7, 3).speedup
    assert predict_("--curve", path, *ASKED).stdout.startswith("some model: ")
    dearer = {width: 2 * seconds for width, seconds in curve.items()}
    choices = [
        {"up_to": 300, "curves": {"0": curve, "512": dearer}},
        {"up_to": 4096, "curves": {"1024": {"1": 0.02, "2": 0.03}}},
    ]
    path.write_text(json.dumps({"curve": curve, "choices": choices, "partial": True}))
    both = CostTable((0, 512), (1, 2, 4), ((0.01, 0.011, 0.014), (0.02, 0.022, 0.028)))
    assert parsed(predict_("--curve", path, *ASKED, "--json"))["speedup"] == forecast(both, 256, 0.7, 3).speedup
    assert "in part only" in predict_("--curve", path, "--table").stdout
    wide = predict_("--curve", path, *ASKED, "--context", 900)
    assert wide.exit_code == 13
    assert "--width 4: passes of up to 2 rows were measured" in wide.stderr


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"curve": {}}', '{"curve": {"2": 1}}', '{"curve": {"1": -1}}', '{"choices": [{}]}'),
        *('{"choices": [{"up_to": 1, "curves": {}}]}', '{"choices": {"a": 1}}', '{"choices": 5}'),
        f'{{"curve": {{"1": 1{"0" * 400}}}}}',
    ],
)
def test_a_file_without_a_curve_is_refused(predict_: Predict, tmp_path: Path, text: str) -> None:
    path = tmp_path / "tune.json"
    path.write_text(text)
    result = predict_("--curve", path, *ASKED)
    assert result.exit_code == 13
    assert "--curve" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [[], ["--acceptance", 0.5], ["--width", 4], ["--table", "--width", 4], ["--acceptance", 1.5, "--width", 4]],
)
def test_half_a_question_is_wrong_usage(predict_: Predict, tuned: Path, arguments: list[object]) -> None:
    assert predict_(tuned, *arguments).exit_code == 2
    assert predict_(tuned, "--acceptance", 0.5, "--width", 1).exit_code == 2
