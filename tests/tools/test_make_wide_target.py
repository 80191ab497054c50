"""Wide copies: the same function by arithmetic and by llama.cpp, the same metadata, and nothing left of a failure."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner

from edgespec.library.header import read_header
from tools.make_toy_model import SHAPES, Format, Kind, write_toy_model
from tools.make_wide_target import DOWN, GRANULE, Fill, WideError, layout_of, main, write_wide_copy

WIDTH = 128 + 2 * GRANULE
TEXT = list(b"the old man and the river of the summer")
Floats = npt.NDArray[np.float32]


def as_q4_1(source: Path, target: Path) -> Path:
    """A toy with its matrices in the starter model's own format."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if not field.name.startswith(("GGUF.", "general.architecture")):
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=field.types[-1])
    for tensor in reader.tensors:
        kind = gguf.GGMLQuantizationType.Q4_1 if len(tensor.shape) == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, gguf.quants.quantize(tensor.data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


@pytest.fixture(
    scope="module", params=["llama-f32", "llama-f16", "llama-q8_0", "llama-q4_0", "llama-q4_1", "gemma3-q4_0"]
)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind, _, form = str(request.param).partition("-")
    folder = tmp_path_factory.mktemp("narrow")
    weights = Format.F32 if form == "q4_1" else Format(form)
    path = write_toy_model(folder / "toy.gguf", shape=replace(SHAPES[Kind(kind)], weights=weights))
    return as_q4_1(path, folder / "toy4.gguf") if form == "q4_1" else path


def matrices(path: Path) -> dict[str, Floats]:
    tensors = gguf.GGUFReader(path).tensors
    return {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in tensors}


def logits(path: Path) -> Floats:
    """A row for each token of the text, read in passes of one token and of many."""
    llama = llama_cpp.Llama(str(path), n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False, logits_all=True)
    with closing(llama):
        llama.eval(TEXT[:20])
        for token in TEXT[20:]:
            llama.eval([token])
        return np.array(llama.scores[: len(TEXT)], np.float32)


@pytest.mark.parametrize("fill", Fill)
def test_the_copy_computes_the_same(fill: Fill, source: Path, tmp_path: Path) -> None:
    """In arithmetic: what a new unit says is multiplied by 0, and every old number is where it was."""
    wide = tmp_path / "wide.gguf"
    write_wide_copy(source, wide, WIDTH, fill)
    before, after = matrices(source), matrices(wide)
    assert before.keys() == after.keys()
    for name, old in before.items():
        new = after[name]
        assert np.array_equal(new[tuple(slice(n) for n in old.shape)], old)
        if DOWN in name:
            assert new.shape == (old.shape[0], WIDTH)
            assert not new[:, old.shape[1] :].any()
        elif "ffn_gate" in name or "ffn_up" in name:
            assert new.shape == (WIDTH, old.shape[1])
            rest = new[old.shape[0] :]
            assert np.array_equal(rest, np.tile(old, (4, 1))) if fill is Fill.REPEAT else not rest.any()
        else:
            assert new.shape == old.shape


@pytest.mark.parametrize("fill", Fill)
def test_llama_cpp_says_the_same(fill: Fill, source: Path, tmp_path: Path) -> None:
    """Within the last bits: a kernel may add the old products in another order when the sum is longer. The logits have
    a standard deviation of 2.5.
    """
    wide = tmp_path / "wide.gguf"
    write_wide_copy(source, wide, WIDTH, fill)
    assert np.abs(logits(wide) - logits(source)).max() <= 1e-4


def test_everything_is_kept_but_width_and_name(source: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide.gguf"
    write_wide_copy(source, wide, WIDTH)
    before, after = gguf.GGUFReader(source), gguf.GGUFReader(wide)
    contents = {name: field.contents() for name, field in after.fields.items() if not name.startswith("GGUF.")}
    expected = {name: field.contents() for name, field in before.fields.items() if not name.startswith("GGUF.")}
    architecture = expected["general.architecture"]
    assert contents == {
        **expected,
        f"{architecture}.feed_forward_length": WIDTH,
        "general.name": f"model (wide copy, feed-forward {WIDTH})",
    }
    assert [tensor.name for tensor in after.tensors] == [tensor.name for tensor in before.tensors]
    assert [tensor.tensor_type for tensor in after.tensors] == [tensor.tensor_type for tensor in before.tensors]


def test_a_name_is_marked_not_replaced(toy: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    write_wide_copy(toy, first, 384)
    write_wide_copy(first, second, 640)
    name = "model (wide copy, feed-forward 384) (wide copy, feed-forward 640)"
    assert (read_header(second).name, read_header(second).feed_forward_length) == (name, 640)


@pytest.mark.parametrize("n_bytes", [1, 1_000_000, 3_333_333])
def test_bytes_are_the_least_that_suffice(n_bytes: int, toy: Path, tmp_path: Path) -> None:
    layout = layout_of(gguf.GGUFReader(toy))
    width = max(layout.width_of(n_bytes), layout.feed_forward + GRANULE)
    wide = tmp_path / "wide.gguf"
    written: list[int] = []
    write_wide_copy(toy, wide, width, progress=written.append)
    size = read_header(wide).tensor_bytes
    assert size == layout.bytes_of(width) == sum(written)
    assert size >= n_bytes
    assert (
        layout.width_of(n_bytes) == layout.feed_forward or layout.bytes_of(layout.width_of(n_bytes) - GRANULE) < n_bytes
    )


def test_the_command_writes_and_says_what(toy: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide.gguf"
    result = CliRunner().invoke(main, [str(toy), str(wide), "--bytes", "2e6", "--fill", "repeat"])
    assert result.exit_code == 0, result.output
    header = read_header(wide)
    assert header.tensor_bytes >= 2_000_000
    assert f"feed-forward 128 -> {header.feed_forward_length}, {header.tensor_bytes} bytes of weights" in result.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["wide.gguf"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--feed-forward", "200"], "a width of 200 is not its own 128 and a multiple of 256 more"),
        (["--feed-forward", "128"], "a width of 128 is not its own 128"),
        (["--bytes", "1e15"], "the copy takes 1000000.00 GB"),
        ([], "give either --feed-forward or --bytes"),
        (["--feed-forward", "384", "--bytes", "1e6"], "give either --feed-forward or --bytes"),
    ],
)
def test_wishes_that_cannot_be(arguments: list[str], sentence: str, toy: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(toy), str(tmp_path / "wide.gguf"), *arguments])
    assert result.exit_code != 0
    assert sentence in result.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(toy: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide.gguf"
    wide.write_text("precious")
    result = CliRunner().invoke(main, [str(toy), str(wide), "--feed-forward", "384"])
    assert result.exit_code != 0
    assert "wide.gguf exists already" in result.stderr
    assert wide.read_text() == "precious"


def test_an_interrupted_copy_leaves_nothing(toy: Path, tmp_path: Path) -> None:
    def give_up(_n_bytes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_wide_copy(toy, tmp_path / "wide.gguf", 384, progress=give_up)
    assert not list(tmp_path.iterdir())


def test_models_without_plain_layers_are_refused(tmp_path: Path) -> None:
    for kind, sentence in (
        (Kind.MOE, "it has no matrix blk.0.ffn_gate.weight"),
        (Kind.MAMBA, "its architecture is mamba"),
    ):
        path = write_toy_model(tmp_path / f"{kind.value}.gguf", kind)
        with pytest.raises(WideError, match=sentence):
            write_wide_copy(path, tmp_path / "wide.gguf", 384)


def test_what_is_no_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"no model at all, but long enough for a header")
    result = CliRunner().invoke(main, [str(path), str(tmp_path / "wide.gguf"), "--feed-forward", "384"])
    assert result.exit_code != 0
    assert f"Error: {path}: " in result.stderr
