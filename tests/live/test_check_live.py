"""The check on a real model, whose rounding flips near-ties: no bug where nothing is wrong, a planted one found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.llama.target import LlamaTarget
from edgespec.check.compare import Comparer, Result
from edgespec.check.prompts import choose_prompts
from edgespec.engine import DraftChoice, Engine, EngineOptions, GenerateOptions
from edgespec.spec.ports import Commit, IntArray

pytestmark = pytest.mark.live

OPTIONS = GenerateOptions(max_tokens=32, draft=DraftChoice.LOOKUP)


@pytest.fixture(scope="module")
def engine(starter_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESPEC_HOME", str(tmp_path_factory.mktemp("home")))
        with Engine.open(starter_model, EngineOptions(ctx_size=512, threads=1)) as opened:
            yield opened


def test_an_honest_engine_has_ties_at_most(engine: Engine) -> None:
    with Comparer(engine) as comparer:
        found = [comparer.compare(prompt, OPTIONS) for prompt in choose_prompts(None, n=2)]
    assert Result.BUG not in {one.result for one in found}
    assert any(one.n_drafted for one in found)
    assert all(one.difference.gap is not None for one in found if one.difference)


def test_exact_answers_are_identical(engine: Engine) -> None:
    with Comparer(engine) as comparer:
        found = [comparer.compare(prompt, replace(OPTIONS, exact=True)) for prompt in choose_prompts(None, n=1)]
    assert {one.result for one in found} == {Result.IDENTICAL}


def test_a_planted_defect_is_a_bug(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an accepted draft the last cell is lost, so what follows sits one place too early."""
    honest = LlamaTarget.commit

    def forgetful(self: LlamaTarget, sequence: int, commit: Commit) -> IntArray:
        if not len(commit.path):
            return honest(self, sequence, commit)
        honest(self, sequence, Commit(commit.path[:-1], commit.tokens[: len(commit.path)]))
        self.rewind(sequence, self.length(sequence))
        return commit.tokens[-1:]

    monkeypatch.setattr(LlamaTarget, "commit", forgetful)
    with Comparer(engine) as comparer:
        found = [comparer.compare(prompt, replace(OPTIONS, max_tokens=64)) for prompt in choose_prompts(None, n=3)]
    assert Result.BUG in {one.result for one in found}
