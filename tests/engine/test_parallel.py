"""Many answers at once through a real model of every kind of memory: as many as are wanted run together."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from contextlib import closing
from pathlib import Path

import pytest

from edgespec.backend.llama.target import LlamaTarget
from edgespec.choice import DraftChoice
from edgespec.engine import Engine, EngineOptions, Extras, GenerateOptions
from edgespec.engine.options import MAX_PARALLEL
from edgespec.events import Completion
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Rows, VerifyRequest
from tests.engine.toy_engine import done
from tools.make_toy_model import Kind, write_toy_model

PROMPTS = [f"{word} {end}" for word in ("the river", "a stone", "the old man", "yes or no") for end in "abcdefgh"]
# Long enough that the first is not over before the last is read: one prompt is, between two rounds.
WANTED = GenerateOptions(max_tokens=48, draft=DraftChoice.parse("suffix"), n_top_logprobs=2)
# Between the two likeliest tokens, in log probability: what other cells in the cache may turn round.
AS_GOOD_AS_EQUAL = 0.005


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sequences each verify pass was for."""
    seen: list[int] = []
    verify = LlamaTarget.verify

    def counted(self: LlamaTarget, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        seen.append(len(requests))
        return verify(self, requests, width)

    monkeypatch.setattr(LlamaTarget, "verify", counted)
    return seen


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("parallel", [1, 5, MAX_PARALLEL])
def test_as_many_as_wanted_run_at_a_time(
    kind: Kind, parallel: int, together: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    path = write_toy_model(tmp_path / f"{kind.value}.gguf", kind)
    options = EngineOptions(ctx_size=2048, threads=1, gpu_layers=0, parallel=parallel)
    with closing(Engine.open(path, options, extras=Extras(policy=FixedPolicy(3, 2)))) as engine:
        answers = [engine.complete(prompt, WANTED) for prompt in PROMPTS]
        shared = [done(answer) for answer in answers]
        assert max(together) == parallel
        alone = [done(engine.complete(prompt, WANTED)) for prompt in PROMPTS[::4]]
    assert all(map(agree, shared[::4], alone))
    assert {len(one.token_ids) for one in shared} == {WANTED.max_tokens}


def agree(a: Completion, b: Completion) -> bool:
    """The same tokens, up to where two of them are as good as equal."""
    for one, other in zip(a.scores, b.scores, strict=True):
        if one.token_id != other.token_id:
            return all(each.top_logprobs[0] - each.top_logprobs[1] < AS_GOOD_AS_EQUAL for each in (one, other))
    return True
