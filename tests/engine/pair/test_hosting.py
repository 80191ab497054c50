"""An opened toy as the host of a draft."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.engine.opening import open_model
from edgespec.engine.options import EngineOptions
from edgespec.engine.pair.everyday import OPENINGS
from edgespec.engine.pair.hosting import end_tokens, host_of
from edgespec.library.card import ModelKind
from tests.library.toy_card import toy_card
from tools.make_toy_model import write_toy_model


def test_what_a_draft_is_tried_on_is_the_models_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    path = write_toy_model(tmp_path / "toy.gguf")
    opened = open_model(path, EngineOptions(256, threads=1, draft_model=""), lambda _notice: None)
    try:
        end = next(text for text in opened.vocab.special_tokens if text != opened.vocab.eos_text)
        card = replace(toy_card(b""), kind=ModelKind.BASE, end_tokens=(end, "<|no such token|>"))
        host = host_of(opened, card)
        asked = host.everyday()
        assert asked.ends == end_tokens(opened.vocab, card)
        assert asked.ends == opened.vocab.end_tokens | {opened.vocab.special_tokens[end]}
        said = [b"".join(map(opened.vocab.piece, prompt)).decode() for prompt in asked.prompts]
        assert all(text.endswith(opening) for text, opening in zip(said, OPENINGS, strict=True))
        assert (host.n_threads, host.on_gpu) == (1, False)
    finally:
        opened.target.close()
