"""The starter model, drafted for by itself as a step model in a process of its own, which is killed in the midst."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from edgespec.choice import DraftChoice
from edgespec.engine import Engine, EngineOptions, GenerateOptions
from edgespec.events import Completion, RoundReport
from edgespec.stepfile import write_step
from edgespec.stepmodel.build import BuildOptions, build_step
from edgespec.text.vocab import Segment

pytestmark = pytest.mark.live

ASKED = GenerateOptions(max_tokens=32, exact=True, draft=DraftChoice.MODEL)
PROMPT = "The three primary colours are"
# A test that waits longer for another process has failed, however busy the machine is.
PATIENCE_SECONDS = 120.0


def test_a_draft_that_is_killed_changes_no_token(
    starter_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    folder = tmp_path / "starter.step"
    write_step(folder, lambda path: build_step(starter_model, path, BuildOptions()))
    options = EngineOptions(ctx_size=512, threads=1, draft_model=str(folder))
    others = set(psutil.Process().children())
    with Engine.open(starter_model, options) as engine:
        tokens = engine.encoder.encode([Segment(PROMPT, trusted=False)])

        def told(asked: GenerateOptions, kills: bool = False) -> Completion:
            n_drafted = 0

            def on_round(report: RoundReport) -> None:
                nonlocal n_drafted
                before, n_drafted = n_drafted, n_drafted + report.n_drafted
                if kills and not before and n_drafted:
                    for child in set(psutil.Process().children()) - others:
                        child.kill()

            sequence = engine.new_sequence()
            return engine.submit(sequence, False, tokens, asked, on_round=on_round).completion()

        def drafted() -> Completion:
            end = time.monotonic() + PATIENCE_SECONDS
            while not (got := told(ASKED)).timings.draft_n_accepted:  # until its process has loaded it
                assert time.monotonic() < end
            return got

        plain = told(replace(ASKED, draft=DraftChoice.OFF)).token_ids
        assert drafted().token_ids == plain
        killed = told(ASKED, kills=True)
        assert killed.token_ids == plain
        assert any("its process died" in notice.message for notice in killed.notices)
        assert drafted().token_ids == plain
    assert set(psutil.Process().children()) <= others
