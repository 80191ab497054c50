"""A real quantised model: the emitted graph says what llama.cpp says with the same file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.backend.settings import LlamaSettings
from edgespec.spec.ports import FloatArray
from edgespec.spec.tree import EMPTY
from edgespec.stepmodel.build import BuildOptions, build_step
from edgespec.stepmodel.gguf_file import read_weights
from tests.backend.llama.driving import accept, read, verify
from tests.stepmodel.driving import Driver, Emitted

pytestmark = pytest.mark.live

SETTINGS = LlamaSettings(n_ctx=512, n_threads=1)
PROMPT = (
    "<|im_start|>user\nWhy do lighthouses flash, and how does a sailor tell one from another?<|im_end|>\n"
    "<|im_start|>assistant\n"
)
N_ANSWER = 160
# Both round their inputs to 8 bits, each in its way. Measured on 640 positions of answers: 0.983, and a total variation
# of 0.017; llama.cpp's own passes of one row and of two agree about as often. Weights requantised to 4 bits reach 0.80.
AGREEMENT = 0.95
DISTANCE = 0.04


def answer(target: LlamaTarget, prompt: list[int]) -> tuple[list[int], FloatArray]:
    """The prompt's last token and the greedy answer but for its last, and the row behind each: [N_ANSWER, n_vocab]."""
    read(target, prompt[:-1])
    tokens, rows = [prompt[-1]], []
    for _ in range(N_ANSWER):
        rows += verify(target, tokens[-1:])
        tokens.append(int(rows[-1].argmax()))
        accept(target, EMPTY, [], tokens[-1])
    return tokens[:-1], np.array(rows)


def test_says_what_llama_cpp_says(starter_model: Path, tmp_path: Path) -> None:
    model = load_model(starter_model, SETTINGS)
    prompt = list(LlamaVocabulary(model).tokenize(PROMPT))
    target = LlamaTarget(model, SETTINGS)
    try:
        tokens, rows = answer(target, prompt)
    finally:
        target.close()
    facts = build_step(starter_model, tmp_path, BuildOptions(n_ranked=16))
    assert facts.n_vocab == rows.shape[1]
    driver = Driver(read_weights(starter_model), Emitted(tmp_path / "model.onnx").run, 256)
    driver.run(prompt[:-1])
    found = [driver.run(tokens[i : i + 8]) for i in range(0, N_ANSWER, 8)]
    ranked = np.concatenate([one.ids for one in found])
    assert (ranked[:, 0] == rows.argmax(axis=1)).mean() >= AGREEMENT
    own = np.exp(np.concatenate([one.logits - one.log_sums[:, None] for one in found]))
    sums = np.log(np.exp(rows - rows.max(axis=1, keepdims=True)).sum(axis=1)) + rows.max(axis=1)
    wanted = np.exp(np.take_along_axis(rows, ranked, axis=1) - sums[:, None])
    assert (np.abs(own - wanted).sum(axis=1) / 2).mean() <= DISTANCE
