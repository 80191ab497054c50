"""A tiny measurement of the real model: every arm says what the others say, and the figures are of one piece."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from edgespec.bench.arms import DEFAULTS, PLAIN
from edgespec.bench.place import load_now, place
from edgespec.bench.plan import Amount
from edgespec.bench.report import as_json
from edgespec.bench.session import Job, run
from edgespec.engine import Engine, EngineOptions, GenerateOptions
from edgespec.events import Notice

pytestmark = pytest.mark.live

N_TOKENS = 24
PROMPTS = (
    {"category": "extraction", "prompt": "Repeat exactly: the grey heron stands in the shallow water near the reeds."},
    {"category": "prose", "prompt": "Tell me in one sentence why the sea is salty."},
)


def test_arms_agree_and_figures_are_there(starter_model: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(map(json.dumps, PROMPTS)))
    notices: list[Notice] = []
    job = Job(prompts, Amount(1, 2), ("lookup",), GenerateOptions(max_tokens=N_TOKENS, exact=True), with_defaults=True)
    with closing(Engine.open(starter_model, EngineOptions(ctx_size=512, threads=1))) as engine:
        where = place(engine.name, "library", engine.settings, load_now())
        outcome = run(job, engine, None, where, tmp_path / "run", notices.append, lambda _progress: None)
    found = outcome.report
    assert found.is_complete
    assert set(found.all.by_category) == {"extraction", "prose"}
    for arms in found.all.by_category.values():
        assert list(arms) == [PLAIN, "lookup", DEFAULTS]
        assert arms["lookup"].same_text == 1.0
        assert arms["lookup"].tokens_per_pass >= arms[PLAIN].tokens_per_pass
        assert arms[PLAIN].n_tokens == arms["lookup"].n_tokens > 0
        assert arms[DEFAULTS].n_tokens > 0
    repeated = found.all.by_category["extraction"]["lookup"]
    assert repeated.acceptance is not None
    assert repeated.tokens_per_pass > 1.2
    assert json.loads(json.dumps(as_json(found)))["overall"][DEFAULTS]["speedup"] > 0.0
