from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
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

    def ask(_asker: Asker, prompts: list[list[int]], n: int, options: GenerateOptions) -> Run:
        assert n == 2
        asked.append((list(prompts), options.max_tokens))
        return Run(len(prompts), options.max_tokens / 2, 2, 1, 4, 8)

    monkeypatch.setattr(batches, "ask", ask)
    prompts = [[i] for i in range(19)]
    arms = (GenerateOptions(max_tokens=1), GenerateOptions(max_tokens=2))
    for first, order in ((0, [1, 2, 2, 1, 1, 2]), (1, [2, 1, 1, 2, 2, 1])):
        asked.clear()
        found = ask_in_turns(cast(Asker, None), prompts, 2, arms, first)
        assert found == [Run(19, 1.5, 6, 3, 12, 24), Run(19, 3.0, 6, 3, 12, 24)]
        assert [arm for _, arm in asked] == order
        for arm in (1, 2):
            of_arm = [some for some, one in asked if one == arm]
            assert [len(some) for some in of_arm] == [8, 8, 3]
            assert [one for some in of_arm for one in some] == prompts


class _Engine:
    """The answer to prompt [0] is complete when prompt [4] is asked."""

    def __init__(self) -> None:
        self.last_is_asked = threading.Event()
        self.n_open = self.most_open = 0
        self._lock = threading.Lock()  # askers are threads

    def new_sequence(self) -> None:
        return None

    def submit(
        self, _cache: None, _keep: bool, prompt: list[int], _options: GenerateOptions, on_round: Callable[..., None]
    ) -> SimpleNamespace:
        with self._lock:
            self.n_open += 1
            self.most_open = max(self.most_open, self.n_open)

        def completion() -> SimpleNamespace:
            if prompt == [4]:
                self.last_is_asked.set()
            if prompt == [0]:
                assert self.last_is_asked.wait(30.0), "who has an answer waits for who has none"
            on_round(SimpleNamespace(n_rows=1))
            with self._lock:
                self.n_open -= 1
            return SimpleNamespace(token_ids=(1, 2), timings=SimpleNamespace(draft_n=1, draft_n_accepted=0))

        return SimpleNamespace(completion=completion)


def test_who_has_an_answer_asks_anew_while_others_wait() -> None:
    engine = _Engine()
    run = batches.ask(cast(Asker, SimpleNamespace(engine=engine)), [[i] for i in range(5)], 2, GenerateOptions())
    assert (run.n_tokens, run.n_drafted, run.n_rounds, run.n_rows) == (10, 5, 5, 5)
    assert engine.most_open == 2


def test_more_answers_than_prompts_are_refused(toy: Path, questions: Path) -> None:
    arguments = ["--model", str(toy), "--prompts", str(questions), "--sizes", "9"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 13
    assert "it holds 3 prompts of at most 200 tokens; give more prompts" in done.stderr
