from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from edgespec.backend.toy import ToyModel
from edgespec.cli.bench import bench
from edgespec.engine import DraftChoice, Engine, Extras, GenerateOptions
from edgespec.errors import BadInput
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, Plan
from edgespec.spec.tree import check_tree, is_chain
from tests.engine.toy_engine import EngineTarget, ToyOpened, done
from tests.text.toy_vocab import ToyVocabulary
from tools.hostile import CLAIM, N_IDS, HostileDrafter, main

VOCAB = ToyVocabulary()
LIMITS = Capabilities(n_ctx=256, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)


def test_it_proposes_all_it_may_and_claims_to_be_sure() -> None:
    tree = HostileDrafter().propose(0, Plan(15))
    check_tree(tree, N_IDS)
    assert (len(tree), is_chain(tree)) == (15, True)
    assert float(tree.survival[0]) == pytest.approx(CLAIM)
    assert len(HostileDrafter().propose(0, Plan(0))) == 0


def test_its_lies_change_no_answer() -> None:
    target = EngineTarget(ToyModel(n_vocab=VOCAB.n_vocab, seed=2), LIMITS)
    extras = Extras(policy=FixedPolicy(), drafters=(HostileDrafter(),))
    options = GenerateOptions(SamplingSettings(banned=tuple(VOCAB.end_tokens)), max_tokens=40)
    with Engine(ToyOpened(target), "toy", [], extras) as engine:
        lied_to = done(engine.complete("the prompt", options))
        plain = done(engine.complete("the prompt", GenerateOptions(options.sampling, 40, draft=DraftChoice.OFF)))
    assert lied_to.token_ids == plain.token_ids
    assert lied_to.timings.draft_n > 100


def test_its_answers_are_not_mixed_with_those_of_others(toy: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"category": "a", "prompt": "the old man and the river and the old man"}\n', encoding="utf-8")
    shared = ["--prompts", str(prompts), "--per-category", "1", "--max-tokens", "4", "--repeat", "1", "--threads", "1"]
    shared += ["--out", str(tmp_path / "run")]
    ordinary = CliRunner().invoke(bench, [str(toy), *shared, "--drafts", "auto"])
    assert ordinary.exit_code == 0, ordinary.output
    lied_to = CliRunner().invoke(main, ["--model", str(toy), *shared])
    assert lied_to.exit_code == BadInput.exit_code
    assert "other drafters" in lied_to.stderr
    alone = CliRunner().invoke(main, ["--model", str(toy), *shared[:-1], str(tmp_path / "other"), "--json"])
    assert alone.exit_code == 0, alone.output
