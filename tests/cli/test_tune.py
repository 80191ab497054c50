"""`edgespec tune` over the real children and a toy model, with a few seconds to measure in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgespec.backend import cores
from edgespec.backend.cores import CoreUse
from edgespec.cli.tune import tune
from edgespec.engine import Engine, EngineOptions
from edgespec.engine.pair import candidates
from edgespec.errors import BadInput, EdgeSpecError
from edgespec.library.resolve import ResolvedModel
from edgespec.tune.search import Search
from tests.library.toy_card import toy_card
from tools.make_toy_model import write_toy_model

Tune = Callable[..., Result]


class Cores:
    """The processor as the tuner sees it, with programs that use so much of it."""

    others = 0.0

    def __init__(self, _pids: object) -> None:
        pass

    def use(self) -> CoreUse:
        return CoreUse(1.0, 2, 1.0, self.others)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tune:
    """The command in a home of its own, on a machine nobody else uses."""
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    monkeypatch.setattr(cores, "CoreReader", Cores)

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(tune, [str(argument) for argument in arguments])
        if isinstance(result.exception, EdgeSpecError):
            raise result.exception
        return result

    return run


def test_tables(run: Tune, toy: Path, tmp_path: Path) -> None:
    result = run(toy, "--cap", 4, "--no-extra-buffers")
    assert result.exit_code == 0, result.output
    head, columns, *lines = result.stdout.splitlines()
    assert head.startswith("toy: milliseconds for one token")
    assert columns.split()[0] == "SETTINGS"
    assert columns.split()[-2:] == ["X", "DEFAULTS"]
    assert any("the library's defaults" in line for line in lines)
    assert sum(line.startswith("Chosen") for line in lines) in (1, 2)
    curve = next(i for i, line in enumerate(lines) if line.startswith("ROWS"))
    assert re.match(r"1 +\d", lines[curve + 1])
    assert lines[-1] == (
        f"Kept in {tmp_path / 'cache' / 'tuning.json'}. Only Python programs that open the engine with "
        "EngineOptions(threads=1, extra_buffers=False) use it."
    )


def test_json(run: Tune, toy: Path) -> None:
    told = json.loads(run(toy, "--cap", 4, "--no-extra-buffers", "--json").stdout)
    assert {"settings", "curve", "candidates", "plain_speedup_over_defaults"} <= set(told)
    assert {"contexts", "choices", "partial", "stored", "width_class", "notices"} <= set(told)
    assert told["settings"]["extra_buffers"] is False
    assert told["settings"]["n_threads"] == 1  # by EDGESPEC_THREADS
    assert all(seconds > 0 for seconds in told["curve"].values())
    assert "1" in told["curve"]
    assert told["choices"][0]["curves"][str(told["contexts"][0])] == told["curve"]
    assert told["notices"] == []
    assert Path(told["stored"]).exists()
    assert told["defaults"] in [one["settings"] for one in told["candidates"]]


def test_beside_busy_programs(run: Tune, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cores, "others", 1.0)
    result = run(toy, "--cap", 2, "--no-extra-buffers", "--json")
    told = json.loads(result.stdout)
    assert told["stored"] is None
    assert [one["code"] for one in told["notices"]] == ["tuned-under-load"]
    assert "these times are not kept" in result.stderr
    assert not (tmp_path / "cache" / "tuning.json").exists()
    shown = run(toy, "--cap", 2, "--no-extra-buffers").stdout
    assert "Kept in" not in shown
    assert "goes on from here" not in shown


def test_ctrl_c_keeps_what_is_finished(run: Tune, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Search.curves

    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, "curves", pressed)
    result = run(toy, "--cap", 4, "--no-extra-buffers")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "goes on from there" in result.stderr
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["tuning.json"]
    monkeypatch.setattr(Search, "curves", measured)
    assert run(toy, "--cap", 4, "--no-extra-buffers").exit_code == 0


def test_ctrl_c_before_anything_is_measured_promises_nothing(
    run: Tune, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, "coarse", pressed)
    assert "Nothing was measured that could be kept" in run(toy, "--cap", 4).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cap", 0.5), "--cap 0.5"),
        (("--cap", "inf"), "--cap inf"),
        (("--cap", "nan"), "--cap nan"),
        (("--threads", 0), "--threads 0"),
        (("--gpu-layers", -2), "--gpu-layers -2"),
    ],
)
def test_values_that_cannot_be(run: Tune, toy: Path, arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        run(toy, *arguments)


def test_no_model_no_table(run: Tune, toy: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(toy.read_bytes()[:-1000])
    with pytest.raises(EdgeSpecError) as caught:
        run(damaged, "--cap", 5)
    assert "damaged" in str(caught.value)


def test_wrong_kv_type(run: Tune, toy: Path) -> None:
    assert run(toy, "--kv-type", "f8").exit_code == 2


# -- second models --------------------------------------------------------------------------------------------------


def test_a_second_model_is_measured_beside_it_and_shown(run: Tune, toy: Path, tmp_path: Path) -> None:
    twin = write_toy_model(tmp_path / "twin.gguf")
    arguments = (toy, "--cap", 4, "--draft-model", twin)
    (pair,) = json.loads(run(*arguments, "--json").stdout)["pairs"]
    assert pair["draft"] == "twin"
    assert pair["acceptance"]["n_tokens"] > 100
    assert pair["acceptance"]["top1"] > 0.6  # the same weights, but a random model is nearly undecided
    assert set(pair["predicted"]) == {"plain", "serial", "overlapped"}
    assert pair["chosen"] in pair["predicted"]
    assert pair["in_turn"]["step_seconds"]["64"] > 0.0
    lines = run(*arguments).stdout.splitlines()
    start = lines.index("twin drafting for toy")
    assert lines[start + 1].startswith("A step takes ")
    assert re.match(r"Of \d+ tokens that the model said, the draft would have said \d+%", lines[start + 3])
    assert [line.split()[0] for line in lines[start + 5 : start + 8]] == ["plain", "serial", "overlapped"]
    assert sum(line.endswith("chosen") for line in lines[start + 5 : start + 8]) == 1
    with Engine.open(toy, EngineOptions(threads=1, draft_model=str(twin))) as engine:
        assert engine.partner is not None
        assert engine.partner.facts.acceptance is not None
        assert all(notice.code != "measuring-draft" for notice in engine.notices)


def test_known_drafts_on_disk_are_measured_without_being_named(
    run: Tune, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = write_toy_model(tmp_path / "twin.gguf")
    model = ResolvedModel(toy, toy_card(b""), "toy")
    monkeypatch.setattr("edgespec.cli.tune.ensure_model", lambda *_arguments, **_options: model)
    monkeypatch.setattr(candidates, "drafts_on_disk", lambda _card: iter([("twin", twin)]))
    assert [one["draft"] for one in json.loads(run(toy, "--cap", 4, "--json").stdout)["pairs"]] == ["twin"]
    assert json.loads(run(toy, "--cap", 4, "--draft-model", "none", "--json").stdout)["pairs"] == []


def test_beside_busy_programs_no_pair_is_measured(
    run: Tune, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cores, "others", 1.0)
    twin = write_toy_model(tmp_path / "twin.gguf")
    told = json.loads(run(toy, "--cap", 4, "--draft-model", twin, "--json").stdout)
    assert told["pairs"] == []
    assert [one["code"] for one in told["notices"]] == ["tuned-under-load", "pair-not-measured"]


def test_a_second_model_beside_a_cache_that_nobody_uses_is_refused(run: Tune, toy: Path) -> None:
    with pytest.raises(BadInput, match="--kv-type q8_0 with --draft-model twin"):
        run(toy, "--kv-type", "q8_0", "--draft-model", "twin")
