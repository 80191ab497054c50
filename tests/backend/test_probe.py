"""Settings are tried in real children that work, die, hang and refuse; the verdicts are remembered."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from edgespec.backend.probe import Verdict, model_fingerprint, proven_settings, settings_key, try_in_child
from edgespec.backend.settings import LlamaSettings
from edgespec.backend.trial import REFUSED
from edgespec.errors import EngineFailure
from edgespec.events import Notice
from edgespec.records import Records
from tests.backend.conftest import SETTINGS, Toys
from tools.make_toy_model import Kind

SAFE = replace(SETTINGS, extra_buffers=False)
ABORT = "import os; os.abort()"
# What the library does when one of its assertions fails: it says where, and aborts.
ASSERT = "import os, sys; sys.stderr.write('ops.cpp:99: GGML_ASSERT(false) failed\\n'); sys.stderr.flush(); os.abort()"
HANG = "import time; time.sleep(600)"
WORK = "raise SystemExit(0)"
REFUSE = f"import sys; print('no such model', file=sys.stderr); sys.exit({REFUSED})"


@dataclass(slots=True)
class Children:
    """Runs a program instead of the trial, chosen by the settings; counts them."""

    program: Callable[[LlamaSettings], str]
    tried: list[LlamaSettings] = field(default_factory=list)

    def command(self, _path: Path, settings: LlamaSettings) -> Sequence[str]:
        self.tried.append(settings)
        return [sys.executable, "-c", self.program(settings)]


def always(program: str) -> Children:
    return Children(lambda _settings: program)


@pytest.fixture
def model(toys: Toys) -> Path:
    return toys.path()


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "trials.json")


# -- one child ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "verdict", "said"),
    [
        (WORK, Verdict.WORKS, "it left with code 0"),
        (ABORT, Verdict.DIED, "it left with code"),
        (ASSERT, Verdict.DIED, "GGML_ASSERT(false) failed"),
        (REFUSE, Verdict.REFUSED, "no such model"),
        ("raise SystemExit(1)", Verdict.DIED, "it left with code 1"),  # as a library that calls exit
        ("raise SystemExit(3)", Verdict.DIED, "it left with code 3"),  # as an abort on Windows
        ("import sys; sys.stderr.buffer.write(b'\\xff broke\\n\\n'); sys.exit(9)", Verdict.DIED, "\ufffd broke"),
    ],
)
def test_a_child_is_judged_by_how_it_ends(program: str, verdict: Verdict, said: str, model: Path) -> None:
    outcome = try_in_child(model, SETTINGS, always(program).command)
    assert outcome.verdict is verdict
    assert said in outcome.last_words


def test_a_child_that_hangs_is_killed(model: Path) -> None:
    outcome = try_in_child(model, SETTINGS, always(HANG).command, timeout_seconds=0.5)
    assert outcome.verdict is Verdict.DIED
    assert outcome.last_words == "it did not end within 0.5 seconds"


def test_a_child_that_talks_without_end_does_not_block(model: Path) -> None:
    talk = "import sys; [sys.stderr.write('x' * 1000 + chr(10)) and sys.stdout.write('y' * 1000) for _ in range(2000)]"
    assert try_in_child(model, SETTINGS, always(talk).command).verdict is Verdict.WORKS


def test_the_real_trial_runs_a_real_model(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """From a folder whose files would be imported instead of Python's and numpy's own, and by a relative path."""
    for name in ("numpy.py", "json.py", "edgespec.py"):
        (tmp_path / name).write_text("raise SystemExit(99)")
    (tmp_path / "toy.gguf").write_bytes(model.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert try_in_child(Path("toy.gguf"), SETTINGS).verdict is Verdict.WORKS
    assert capfd.readouterr() == ("", "")


def test_the_real_trial_refuses_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "fake.gguf"
    path.write_bytes(b"hello world" * 50)
    outcome = try_in_child(path, SETTINGS)
    assert outcome.verdict is Verdict.REFUSED
    assert "invalid magic characters" in outcome.last_words


# -- the ladder -----------------------------------------------------------------------------------------------------


def prove(
    model: Path, wanted: LlamaSettings, records: Records, children: Children, library: str = "build 1"
) -> tuple[LlamaSettings, list[str]]:
    notices: list[Notice] = []
    found = proven_settings(model, wanted, library, records, notices.append, children.command, timeout_seconds=60.0)
    return found, [notice.code + (" gpu" if "GPU" in notice.message else "") for notice in notices]


def test_settings_that_work_are_taken_without_a_word(model: Path, records: Records) -> None:
    children = always(WORK)
    assert prove(model, SETTINGS, records, children) == (SETTINGS, [])
    assert children.tried == [SETTINGS]


def test_settings_that_kill_are_left_with_a_line(model: Path, records: Records) -> None:
    children = Children(lambda settings: ABORT if settings.extra_buffers else WORK)
    assert prove(model, SETTINGS, records, children) == (SAFE, ["settings-died"])
    assert children.tried == [SETTINGS, SAFE]


def test_the_gpu_goes_first(model: Path, records: Records) -> None:
    children = Children(lambda settings: ABORT if settings.n_gpu_layers else WORK)
    gpu = SETTINGS.on_gpu()
    assert prove(model, gpu, records, children) == (SETTINGS, ["settings-died gpu"])
    worse = Children(lambda settings: WORK if settings == SAFE else ABORT)
    other = Records(records.path.with_name("other.json"))
    assert prove(model, gpu, other, worse) == (SAFE, ["settings-died gpu", "settings-died"])
    assert worse.tried == [gpu, SETTINGS, SAFE]


def test_when_nothing_survives_the_first_cause_is_told(model: Path, records: Records) -> None:
    children = Children(lambda settings: ASSERT if settings.extra_buffers else ABORT)
    with pytest.raises(EngineFailure, match=r"dies with every setting tried \(ops.cpp:99: GGML_ASSERT") as caught:
        prove(model, SETTINGS, records, children)
    assert model.name in caught.value.what
    with pytest.raises(EngineFailure, match=r"tried \(as was found earlier\)"):
        prove(model, SETTINGS, records, children)
    assert len(children.tried) == 2


# -- what is remembered ---------------------------------------------------------------------------------------------


def test_verdicts_are_remembered(model: Path, records: Records) -> None:
    children = Children(lambda settings: ABORT if settings.extra_buffers else WORK)
    first = prove(model, SETTINGS, records, children)
    assert prove(model, SETTINGS, Records(records.path), children) == first
    assert len(children.tried) == 2


def test_a_refusal_is_not_remembered(model: Path, records: Records) -> None:
    """Memory that was short, a file that was busy: nothing was proven, and the caller meets the error itself."""
    assert prove(model, SETTINGS, records, always(REFUSE)) == (SETTINGS, [])
    assert not records.path.exists()
    children = Children(lambda settings: ABORT if settings.extra_buffers else WORK)
    assert prove(model, SETTINGS, records, children)[0] == SAFE


def test_a_verdict_belongs_to_model_build_and_settings(model: Path, toys: Toys, records: Records) -> None:
    children = always(WORK)
    prove(model, SETTINGS, records, children)
    prove(model, SETTINGS, records, children, library="build 2")
    prove(toys.path(Kind.MOE), SETTINGS, records, children)
    prove(model, replace(SETTINGS, max_rows=8), records, children)
    assert len(children.tried) == 4
    prove(model, replace(SETTINGS, n_ctx=99), records, children)
    assert len(children.tried) == 4


def test_a_longer_context_is_tried_again_on_a_gpu_only() -> None:
    longer = replace(SETTINGS, n_ctx=99)
    assert settings_key(SETTINGS) == settings_key(longer)
    assert settings_key(SETTINGS.on_gpu()) != settings_key(longer.on_gpu())
    assert settings_key(SETTINGS) != settings_key(replace(SETTINGS, n_threads=2))


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"format": 99, "entries": {}}', "\ufffd" * 9])
def test_damaged_records_are_made_anew_with_one_line(content: str, model: Path, records: Records) -> None:
    records.path.write_text(content, encoding="utf-8")
    children = Children(lambda settings: ABORT if settings.extra_buffers else WORK)
    assert prove(model, SETTINGS, records, children) == (SAFE, ["settings-died", "records-rebuilt"])
    assert prove(model, SETTINGS, Records(records.path), children) == (SAFE, ["settings-died"])
    assert len(children.tried) == 2


def test_a_verdict_that_makes_no_sense_is_found_out_again(model: Path, records: Records) -> None:
    children = always(WORK)
    prove(model, SETTINGS, records, children)
    records.path.write_text(records.path.read_text(encoding="utf-8").replace("works", "refused"), encoding="utf-8")
    prove(model, SETTINGS, Records(records.path), children)
    assert len(children.tried) == 2


def test_processes_that_write_at_the_same_time_do_not_damage_the_records(records: Records) -> None:
    """One of them may lose an entry, which is then found out again."""
    program = (
        "import sys; from pathlib import Path; from edgespec.records import Records\n"
        "for i in range(60): Records(Path(sys.argv[1])).put(f'{sys.argv[2]}-{i}', 'works')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(records.path), name]) for name in "ab"]
    while any(writer.poll() is None for writer in writers):
        # Windows refuses to open a file that is being replaced.
        with suppress(FileNotFoundError, PermissionError):
            json.loads(records.path.read_text(encoding="utf-8"))
    assert [writer.wait() for writer in writers] == [0, 0]
    stored = json.loads(records.path.read_text(encoding="utf-8"))
    assert set(stored["entries"].values()) == {"works"}
    assert list(records.path.parent.iterdir()) == [records.path]


def test_a_fingerprint_is_of_the_content(model: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved.gguf"
    moved.write_bytes(model.read_bytes())
    assert model_fingerprint(moved) == model_fingerprint(model)
    moved.write_bytes(model.read_bytes() + b"\0")
    assert model_fingerprint(moved) != model_fingerprint(model)
