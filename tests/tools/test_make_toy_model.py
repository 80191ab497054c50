"""Toy models: llama.cpp loads and runs every kind, and they behave as a test model should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner

from tools.make_toy_model import (
    BOS,
    CHAT_TEMPLATE,
    EOS,
    N_VOCAB,
    SHAPES,
    SPECIALS,
    TURN_END,
    TURN_START,
    Format,
    Kind,
    corrupt,
    main,
    truncate,
    write_toy_model,
)

KINDS = list(Kind)
PROMPT = [BOS, *b"the old river"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, Path]:
    folder = tmp_path_factory.mktemp("toys")
    return {kind: write_toy_model(folder / f"{kind.value}.gguf", kind) for kind in KINDS}


@contextmanager
def opened(path: Path, vocab_only: bool = False) -> Iterator[llama_cpp.Llama]:
    llama = llama_cpp.Llama(
        str(path),
        n_ctx=256,
        n_threads=1,
        n_threads_batch=1,
        verbose=False,
        logits_all=True,
        vocab_only=vocab_only,
    )
    with closing(llama):
        yield llama


def logits(llama: llama_cpp.Llama, tokens: Sequence[int]) -> npt.NDArray[np.float64]:
    """One row per token, in a fresh context."""
    llama.reset()
    llama.eval(tokens)
    return np.array(llama.scores[: len(tokens)], dtype=np.float64)


def greedy(llama: llama_cpp.Llama, n_tokens: int) -> list[int]:
    llama.reset()
    llama.eval(PROMPT)
    said: list[int] = []
    for _ in range(n_tokens):
        said.append(int(np.argmax(llama.scores[llama.n_tokens - 1])))
        llama.eval(said[-1:])
    return said


@pytest.mark.parametrize("kind", KINDS)
def test_it_runs_and_says_the_same_each_time(models: dict[Kind, Path], kind: Kind) -> None:
    with opened(models[kind]) as llama:
        said = greedy(llama, 8)
        assert greedy(llama, 8) == said
    with opened(models[kind]) as llama:
        assert greedy(llama, 8) == said
    assert len(set(said)) > 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_token_is_uncertain_and_depends_on_the_context(models: dict[Kind, Path], kind: Kind) -> None:
    with opened(models[kind]) as llama:
        rows = logits(llama, [BOS, *b"the same end"])
        others = logits(llama, [BOS, *b"not same end"])
    chances = np.exp(rows - rows.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    entropy = float(-(chances * np.log(chances)).sum(axis=1).mean())
    assert 2 < entropy < 5
    assert np.abs(rows[-1] - others[-1]).max() > 0.1


def test_each_kind_keeps_its_kind_of_memory(models: dict[Kind, Path]) -> None:
    facts = {}
    for kind in KINDS:
        with opened(models[kind]) as llama:
            model = llama.model
            facts[kind] = (
                llama_cpp.llama_model_n_swa(model),
                llama_cpp.llama_model_is_recurrent(model),
                llama_cpp.llama_model_is_hybrid(model),
            )
    assert facts == {
        Kind.LLAMA: (0, False, False),
        Kind.GEMMA3: (32, False, False),
        Kind.MOE: (0, False, False),
        Kind.MAMBA: (0, True, False),
        Kind.JAMBA: (0, False, True),
    }


def test_end_strength_lets_an_answer_end(models: dict[Kind, Path], tmp_path: Path) -> None:
    ending = write_toy_model(tmp_path / "ending.gguf", shape=replace(SHAPES[Kind.LLAMA], end_strength=4.0))
    with opened(ending) as llama:
        assert {EOS, TURN_END} & set(logits(llama, range(256)).argmax(axis=1))
    with opened(models[Kind.LLAMA]) as llama:
        assert set(range(BOS, BOS + len(SPECIALS))).isdisjoint(logits(llama, range(256)).argmax(axis=1))


def test_text_becomes_tokens_and_text_again(models: dict[Kind, Path]) -> None:
    with opened(models[Kind.LLAMA], vocab_only=True) as llama:
        text = " the river, ünd 日本 😀\n\x00\x7f".encode()
        tokens = llama.tokenize(text, add_bos=False)
        assert llama.detokenize(tokens) == text
        assert len(tokens) < len(text)
        assert [llama.tokenize(bytes([byte]), add_bos=False) for byte in range(0x80)] == [[b] for b in range(0x80)]
        assert llama.tokenize(b"<|im_end|>\n", add_bos=True, special=True) == [BOS, TURN_END, ord("\n")]
        assert TURN_END not in llama.tokenize(b"<|im_end|>", add_bos=False, special=False)
        assert llama.n_vocab() == N_VOCAB


def test_the_metadata_name_the_special_tokens_and_the_template(models: dict[Kind, Path]) -> None:
    with opened(models[Kind.GEMMA3], vocab_only=True) as llama:
        vocab = llama_cpp.llama_model_get_vocab(llama.model)
        assert (llama.token_bos(), llama.token_eos()) == (BOS, EOS)
        assert [token for token in range(N_VOCAB) if llama_cpp.llama_vocab_is_eog(vocab, token)] == [EOS, TURN_END]
        assert llama_cpp.llama_vocab_is_control(vocab, TURN_START)
        assert llama.metadata["tokenizer.chat_template"] == CHAT_TEMPLATE


def test_a_seed_decides_every_byte(models: dict[Kind, Path], tmp_path: Path) -> None:
    original = models[Kind.LLAMA].read_bytes()
    assert write_toy_model(tmp_path / "again.gguf").read_bytes() == original
    assert write_toy_model(tmp_path / "other.gguf", seed=1).read_bytes() != original


def test_every_file_is_small(models: dict[Kind, Path]) -> None:
    assert max(path.stat().st_size for path in models.values()) < 3_000_000


@pytest.mark.parametrize(
    ("kind", "form"), [*((Kind.LLAMA, form) for form in Format), *((kind, Format.Q4_0) for kind in KINDS[1:])]
)
def test_matrices_have_the_format_asked_for(kind: Kind, form: Format, tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    result = CliRunner().invoke(main, [str(path), "--kind", kind.value, "--weights", form.value, "--seed", "3"])
    assert result.exit_code == 0, result.output
    stored = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors}
    matrix = "blk.0.ssm_in.weight" if kind in (Kind.MAMBA, Kind.JAMBA) else "blk.0.attn_q.weight"
    assert (stored[matrix], stored["output.weight"]) == (form.name, form.name)
    assert stored["output_norm.weight"] == "F32"
    with opened(path, vocab_only=True) as llama:
        assert llama.n_vocab() == N_VOCAB


@pytest.mark.parametrize("n_bytes", [0, 3, 100, 20_000, 300_000])
def test_a_truncated_file_does_not_load(models: dict[Kind, Path], tmp_path: Path, n_bytes: int) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(models[Kind.LLAMA].read_bytes())
    truncate(path, n_bytes)
    assert path.stat().st_size == n_bytes
    with pytest.raises(ValueError, match="Failed to load"), opened(path):
        pass


@pytest.mark.parametrize("start", [0, 4, 8, 24])
def test_a_corrupt_file_does_not_load(models: dict[Kind, Path], tmp_path: Path, start: int) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(models[Kind.LLAMA].read_bytes())
    corrupt(path, start)
    assert path.stat().st_size == models[Kind.LLAMA].stat().st_size
    with pytest.raises(ValueError, match="Failed to load"), opened(path):
        pass
