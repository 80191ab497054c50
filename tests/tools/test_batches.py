from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner

from edgespec.engine import GenerateOptions
from tools import batches
from tools.asking import Asker
from tools.batches import Run, ask_in_turns, main


def test_every_size_is_measured_plain_and_drafted(toy: Path, questions: Path) -> None:
    arguments = ["--model", str(toy), "--prompts", str(questions), "--sizes", "1,3", "--max-tokens", "120"]
    arguments += ["--ctx-size", "1024", "--threads", "1", "--draft", "suffix"]
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [one["n"] for one in found] == [1, 3]
    for one in found:
        assert one["tokens_per_second"] > 0.0 < one["plain_tokens_per_second"]
        assert 0.0 < one["least"] <= one["speedup"] <= one["largest"]
        assert one["drafted_per_token"] > 0.0
        assert 0.0 <= one["accepted"] <= 1.0
        assert one["n"] - 1 < one["together"] <= one["n"]
    assert "at once" in CliRunner().invoke(main, [*arguments, "--repeats", "1"]).stdout


def test_every_prompt_is_asked_once_with_each_arm_whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[list[int]], int]] = []

    def ask(_asker: Asker, prompts: list[list[int]], options: GenerateOptions) -> Run:
        asked.append((list(prompts), options.max_tokens))
        return Run(len(prompts), options.max_tokens / 2, 2, 1, 4, 8)

    monkeypatch.setattr(batches, "ask_at_once", ask)
    prompts = [[i] for i in range(5)]
    arms = (GenerateOptions(max_tokens=1), GenerateOptions(max_tokens=2))
    for first, order in ((0, [1, 2, 2, 1, 1, 2]), (1, [2, 1, 1, 2, 2, 1])):
        asked.clear()
        found = ask_in_turns(cast(Asker, None), prompts, 2, arms, first)
        assert found == [Run(5, 1.5, 6, 3, 12, 24), Run(5, 3.0, 6, 3, 12, 24)]
        assert [arm for _, arm in asked] == order
        for arm in (1, 2):
            batches_of_arm = [batch for batch, one in asked if one == arm]
            assert [len(batch) for batch in batches_of_arm] == [2, 2, 1]
            assert [one for batch in batches_of_arm for one in batch] == prompts


def test_more_answers_than_prompts_are_refused(toy: Path, questions: Path) -> None:
    arguments = ["--model", str(toy), "--prompts", str(questions), "--sizes", "9"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 13
    assert "it holds 3 prompts of at most 200 tokens; give more prompts" in done.stderr
