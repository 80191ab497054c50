"""The emitted model in ONNX Runtime against the interpreted graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import pytest

from edgespec.errors import MissingExtra, UnsupportedModel
from edgespec.spec.ports import FloatArray
from edgespec.stepmodel.define import define
from edgespec.stepmodel.emit_onnx import emit_onnx
from edgespec.stepmodel.gguf_file import ARCHITECTURES
from edgespec.stepmodel.graph import Graph, Linear, Port
from edgespec.stepmodel.matrix import DenseMatrix, QuantMatrix, dequantised
from edgespec.stepmodel.reference import Reference
from edgespec.stepmodel.weights import Weights
from tests.stepmodel.conftest import ToyWeights
from tests.stepmodel.driving import Driver, Emitted
from tests.stepmodel.test_matrix import FORMS, random_matrix
from tests.stepmodel.toy_files import N_VOCAB

TEXT = [int(token) for token in np.random.default_rng(6).integers(0, 256, 40)]
# Runs of several widths, then a tree: two rows continue cell 39, one continues cell 40.
RUNS = [(TEXT[:32], None), (TEXT[32:33], None), (TEXT[33:], None), ([4, 5, 6], [39, 40, 39])]
# MatMulNBits rounds its inputs to 8 bits: logits, of standard deviation 2.5, differ by 0.05 to 0.15 on average.
# A wrong row differs by 2.5 on average.
ROUNDED, ROUNDED_MEAN = 1.5, 0.25


def both(weights: Weights, graph: Graph) -> Iterator[tuple[FloatArray, FloatArray]]:
    """For each run what the two give: full rows, log-sum-exps, and new keys and values."""
    plain, emitted = Driver(weights, Reference(graph).run), Driver(weights, Emitted.of(graph).run)
    for tokens, parents in RUNS:
        a, b = plain.run(tokens, parents), emitted.run(tokens, parents)
        yield a.by_row(), b.by_row()
        yield a.log_sums, b.log_sums
        yield from ((a.new[name], b.new[name]) for name in a.new)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_plain_weights_give_the_same(architecture: str, toy_weights: ToyWeights) -> None:
    weights = toy_weights(architecture, "F32")
    for wanted, found in both(weights, define(weights, N_VOCAB)):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-4)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("stored", ["Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_quantised_weights_give_nearly_the_same(architecture: str, stored: str, toy_weights: ToyWeights) -> None:
    weights = toy_weights(architecture, stored)
    for wanted, found in both(weights, define(weights, N_VOCAB)):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=ROUNDED)
        assert np.abs(found - wanted).mean() < ROUNDED_MEAN


@pytest.mark.parametrize("stored", ["Q4_0", "Q4_1", "Q8_0"])
def test_operands_of_the_products_are_the_weights(stored: str, toy_weights: ToyWeights) -> None:
    """As the operation's definition dequantises them: scale * (code - half the range), plus the offsets' product."""
    graph = define(toy_weights("llama", stored), 4)
    constants = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load_model_from_string(emit_onnx(graph)).graph.initializer
    }
    for name, matrix in graph.matrices.items():
        if isinstance(matrix, QuantMatrix):
            codes, scales = constants[f"{name}_codes"], constants[f"{name}_scales"]
            if matrix.bits == 4:
                codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*scales.shape, 32)
            found = (codes.astype(np.float32) - 2 ** (matrix.bits - 1)) * scales[..., None]
            if matrix.offsets is not None:
                found += constants[f"{name}_offsets"].T[..., None]
            assert (found.reshape(matrix.n_out, -1) == dequantised(matrix)).all()


@pytest.mark.parametrize("form", FORMS)
def test_the_runtime_computes_with_these_very_weights(form: str) -> None:
    """An input of one nonzero value survives rounding to 8 bits, so that the runtime's own weights show."""
    matrix = random_matrix(np.random.default_rng(8), form, n_out=48)
    ports = (Port("x", ("n", 64)),), (Port("y", ("n", 48)),)
    session = Emitted.of(Graph(1, 1, 2, *ports, (Linear("x", "m", "y"),), {"m": matrix}, {}))
    for rows in (1, 64):
        units = np.eye(64, dtype=np.float32)
        found = np.concatenate([session.run({"x": units[i : i + rows]})["y"] for i in range(0, 64, rows)])
        np.testing.assert_allclose(found.T, dequantised(matrix), rtol=1e-6, atol=2e-6)


def test_one_file_serves_every_number_of_rows_and_cells(toy_weights: ToyWeights) -> None:
    weights = toy_weights("llama", "Q4_1")
    session = Emitted.of(define(weights, 5))
    few, many = (Driver(weights, session.run, n_cells) for n_cells in (40, 333))
    for tokens, parents in ((TEXT[:7], None), (TEXT[7:8], None), (TEXT[8:10], [7, 6])):
        a, b = few.run(tokens, parents), many.run(tokens, parents)
        assert (a.ids == b.ids).all()
        np.testing.assert_allclose(a.logits, b.logits, rtol=0, atol=0.3)


def test_trimmed_head_ranks_its_own_rows(toy_weights: ToyWeights) -> None:
    weights = toy_weights("llama", "F32")
    ids = np.array([3, 20, 21, 100, 447], dtype=np.int32)
    whole = Driver(weights, Emitted.of(define(weights, N_VOCAB)).run).run(TEXT)
    trimmed = Driver(weights, Emitted.of(define(weights, 5, ids)).run).run(TEXT)
    rows = whole.by_row()[:, ids]
    order = np.argsort(-rows, axis=1, kind="stable")
    assert (trimmed.ids == order).all()
    np.testing.assert_allclose(trimmed.logits, np.take_along_axis(rows, order, axis=1), rtol=0, atol=1e-4)
    np.testing.assert_allclose(trimmed.log_sums, np.log(np.exp(rows).sum(axis=1)), rtol=0, atol=1e-4)


def test_of_equal_tokens_the_lower_id_comes_first(toy_weights: ToyWeights) -> None:
    """Rows with a single one, so that sums of any order give equal logits: BLAS has more than one order for a product's
    columns, by processor and threads.
    """
    weights = toy_weights("llama", "F32")
    rows = np.eye(dequantised(weights.head).shape[1], dtype=np.float32)[np.arange(N_VOCAB) % 7]
    graph = define(replace(weights, head=DenseMatrix(rows)), 16)
    for run in (Reference(graph).run, Emitted.of(graph).run):
        found = Driver(weights, run).run(TEXT[:9])
        best = found.ids[:, :1]
        assert best.max() < 7
        assert (found.ids == best + 7 * np.arange(16)).all()


def test_large_logits_do_not_overflow_the_sum(toy_weights: ToyWeights) -> None:
    weights = toy_weights("llama", "F32")
    graph = define(replace(weights, head=DenseMatrix(dequantised(weights.head) * 1000)), 2)
    found = Driver(weights, Emitted.of(graph).run).run(TEXT[:4])
    assert np.isfinite(found.log_sums).all()
    assert (found.log_sums >= found.logits[:, 0]).all()


def test_ids_are_int32_and_dimensions_symbolic(toy_weights: ToyWeights) -> None:
    model = onnx.load_model_from_string(emit_onnx(define(toy_weights("llama", "F32"), 4)))
    types = {port.name: port.type.tensor_type for port in (*model.graph.input, *model.graph.output)}
    assert types["ids"].elem_type == onnx.TensorProto.INT32
    assert [dim.dim_param for dim in types["mask"].shape.dim] == ["n", "S"]
    assert types["new_k_2"].shape.dim[1].dim_param == "n"


def test_more_than_a_file_holds_is_refused(toy_weights: ToyWeights) -> None:
    weights = toy_weights("llama", "F32")
    # Three gigabytes in name only.
    huge = DenseMatrix(np.broadcast_to(np.float32(0), (12_000_000, 64)))
    with pytest.raises(UnsupportedModel, match=r"its matrices take 3\.\d GB, and one ONNX file holds 2\.1 GB"):
        emit_onnx(define(replace(weights, head=huge), 4))


def test_missing_writer_is_named(toy_weights: ToyWeights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match="'onnx' is not installed"):
        emit_onnx(define(toy_weights("llama", "F32"), 4))
