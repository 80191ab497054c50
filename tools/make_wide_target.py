"""Writes a wider copy of a GGUF that computes the same function: a larger model's cost with a small model's text.

Contract: every feed-forward layer gets more hidden units, and none of them reaches the output. A unit's way out is its
column of `ffn_down`, and the new columns are whole blocks of zero bytes: in every format that is taken here they decode
to 0 (a scale of 0, and in Q4_1 a minimum of 0 too), which is checked. The old blocks are copied as they are, and an
activation is quantised block by block, so the old units' products do not change either; an engine may add them in
another order. All metadata but width and name are kept. Figures taken with such a copy must say that it is one.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import click
import gguf
import numpy as np
import numpy.typing as npt

ByteArray = npt.NDArray[np.uint8]
Progress = Callable[[int], None]

# Families whose feed-forward layer is down(act(gate(x)) * up(x)), which gives 0 for a unit of zeros.
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3")
# Every format's blocks fit into it, and matrices of other heights and widths fall out of engines' fastest kernels.
GRANULE = 256
GATED = ("ffn_gate", "ffn_up")
DOWN = "ffn_down"


class Fill(str, Enum):
    """What the new units compute: nothing, or what old ones do, so that their activations are numbers like others."""

    ZEROS = "zeros"
    REPEAT = "repeat"


class WideError(Exception):
    """The copy cannot be made; the one argument says why."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How wide a model is, and how many bytes GRANULE more units of every layer take."""

    architecture: str
    feed_forward: int
    tensor_bytes: int
    granule_bytes: int

    def width_of(self, n_bytes: int) -> int:
        """The least width in whole granules whose tensors take `n_bytes` or more."""
        missing = max(0, n_bytes - self.tensor_bytes)
        return self.feed_forward + GRANULE * -(-missing // self.granule_bytes)

    def bytes_of(self, width: int) -> int:
        return self.tensor_bytes + (width - self.feed_forward) // GRANULE * self.granule_bytes


def layout_of(reader: gguf.GGUFReader) -> Layout:
    """Raises WideError, which says what is in the way, for a model that cannot be made wider like this."""
    arch = str(_contents(reader, "general.architecture"))
    if arch not in ARCHITECTURES:
        raise WideError(f"its architecture is {arch}, and only {', '.join(ARCHITECTURES)} are known")
    if _count(reader, "split.count") > 1:
        raise WideError("it is one part of a split model")
    if reader.byte_order != "I":
        raise WideError("it was written for machines of the other byte order")
    width, n_blocks = _count(reader, f"{arch}.feed_forward_length"), _count(reader, f"{arch}.block_count")
    if not width or not n_blocks:
        raise WideError("it states no feed-forward width that all its blocks have")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    wide = [tensor for block in range(n_blocks) for tensor in _matrices(tensors, block, width)]
    granule_bytes = sum(int(tensor.n_bytes) * GRANULE // width for tensor in wide)
    return Layout(arch, width, sum(int(tensor.n_bytes) for tensor in reader.tensors), granule_bytes)


def write_wide_copy(
    source: Path, target: Path, width: int, fill: Fill = Fill.ZEROS, progress: Progress | None = None
) -> None:
    """Write `target`, whole or not at all. `progress` gets the bytes of each tensor that is written.

    Raises WideError, also when `target` exists or its disk is too full, and OSError.
    """
    reader = gguf.GGUFReader(source)
    layout = layout_of(reader)
    if width <= layout.feed_forward or (width - layout.feed_forward) % GRANULE:
        raise WideError(f"a width of {width} is not its own {layout.feed_forward} and a multiple of {GRANULE} more")
    _require_room(target, layout.bytes_of(width))
    with _published(target) as temporary:
        writer = gguf.GGUFWriter(temporary, layout.architecture)
        try:
            _copy_metadata(reader, writer, layout, width)
            _write_tensors(reader, writer, width - layout.feed_forward, fill, progress or (lambda _n_bytes: None))
        finally:
            writer.close()


def widened(tensor: gguf.ReaderTensor, n_more: int, fill: Fill) -> ByteArray:
    """The tensor's bytes, uint8[..., bytes of a row], with `n_more` units; what has no units comes back as it is."""
    rows: ByteArray = tensor.data.view(np.uint8)
    if _part(tensor) in GATED:
        if fill is Fill.REPEAT:
            return rows[np.arange(len(rows) + n_more) % len(rows)]
        return np.pad(rows, ((0, n_more), (0, 0)))
    if _part(tensor) == DOWN:
        block_items, block_bytes = gguf.GGML_QUANT_SIZES[tensor.tensor_type]
        return np.pad(rows, ((0, 0), (0, n_more // block_items * block_bytes)))
    return rows


def _matrices(tensors: dict[str, gguf.ReaderTensor], block: int, width: int) -> list[gguf.ReaderTensor]:
    """The block's three matrices that grow. Raises WideError where they are not as they must be."""
    found = []
    for part, axis in ((GATED[0], 1), (GATED[1], 1), (DOWN, 0)):
        name = f"blk.{block}.{part}.weight"
        tensor = tensors.get(name)
        if tensor is None or len(tensor.shape) != 2 or tensor.shape[axis] != width:
            raise WideError(f"it has no matrix {name} of width {width} (layers of experts are not known)")
        _require_zeros_are_zero(tensor)
        found.append(tensor)
        if part in GATED and f"blk.{block}.{part}.bias" in tensors:
            raise WideError(f"its {part} has biases, so that a new unit would not give 0")
    return found


def _require_zeros_are_zero(tensor: gguf.ReaderTensor) -> None:
    kind = tensor.tensor_type
    block_items, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    try:
        values = gguf.quants.dequantize(np.zeros((1, block_bytes), np.uint8), kind)
    except NotImplementedError:
        raise WideError(f"{tensor.name} is {kind.name}, whose blocks cannot be checked") from None
    if GRANULE % block_items or np.any(values != 0):
        raise WideError(f"{tensor.name} is {kind.name}, where bytes of zeros are no whole blocks that mean 0")


def _copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, layout: Layout, width: int) -> None:
    named = f"{_contents(reader, 'general.name') or 'model'} (wide copy, feed-forward {width})"
    changed: dict[str, object] = {f"{layout.architecture}.feed_forward_length": width, "general.name": named}
    for field in reader.fields.values():
        # The writer states these by itself.
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        contents = changed[field.name] if field.name in changed else field.contents()
        if field.name == "general.alignment":
            writer.add_custom_alignment(contents)
        else:
            inner = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, contents, field.types[0], sub_type=inner)
    if "general.name" not in reader.fields:
        writer.add_name(named)


def _write_tensors(
    reader: gguf.GGUFReader, writer: gguf.GGUFWriter, n_more: int, fill: Fill, progress: Progress
) -> None:
    """First the table, which needs only the sizes; then one tensor after the other: one at most is in memory."""
    for tensor in reader.tensors:
        size = _wide_size(tensor, n_more)
        writer.add_tensor_info(tensor.name, size, np.dtype(np.uint8), math.prod(size), raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in reader.tensors:
        rows = widened(tensor, n_more, fill)
        writer.write_tensor_data(rows)
        progress(rows.nbytes)


def _wide_size(tensor: gguf.ReaderTensor, n_more: int) -> tuple[int, ...]:
    """The shape of what `widened` returns."""
    size = [*tensor.data.shape[:-1], tensor.data.shape[-1] * tensor.data.itemsize]
    if _part(tensor) in GATED:
        size[0] += n_more
    elif _part(tensor) == DOWN:
        block_items, block_bytes = gguf.GGML_QUANT_SIZES[tensor.tensor_type]
        size[-1] += n_more // block_items * block_bytes
    return tuple(size)


def _part(tensor: gguf.ReaderTensor) -> str:
    """blk.3.ffn_up.weight -> ffn_up"""
    name: str = tensor.name
    return name.removesuffix(".weight").rpartition(".")[2]


def _contents(reader: gguf.GGUFReader, name: str) -> object:
    """A value of the header, None where it is not stated."""
    field = reader.fields.get(name)
    contents: object = field.contents() if field else None
    return contents


def _count(reader: gguf.GGUFReader, name: str) -> int:
    """A whole number of the header, 0 where none is stated, or one for each block."""
    contents = _contents(reader, name)
    return contents if isinstance(contents, int) else 0


def _require_room(target: Path, n_bytes: int) -> None:
    if target.exists():
        raise WideError(f"{target} exists already; choose another name or take it away")
    free = shutil.disk_usage(target.absolute().parent).free
    if free < n_bytes:
        raise WideError(f"the copy takes {n_bytes / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free for {target}")


@contextmanager
def _published(target: Path) -> Iterator[Path]:
    """A name to write under. The file gets its own when all went well, and is gone when not."""
    temporary = target.with_name(f".{target.name}.part")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@click.command()
@click.argument("source", metavar="INPUT", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", metavar="OUTPUT", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--feed-forward", type=click.IntRange(1), help=f"The new width: the old one and a multiple of {GRANULE}.")
@click.option("--bytes", "n_bytes", type=float, help="Take the least width whose weights have so many bytes: 1.1e9.")
@click.option("--fill", type=click.Choice(Fill, case_sensitive=False), default=Fill.ZEROS, show_default=True)
def main(source: Path, target: Path, feed_forward: int | None, n_bytes: float | None, fill: Fill) -> None:
    """Write a wider copy of the GGUF model INPUT, which says the same, to OUTPUT."""
    if (feed_forward is None) == (n_bytes is None):
        raise click.UsageError("give either --feed-forward or --bytes")
    try:
        layout = layout_of(gguf.GGUFReader(source))
        width = feed_forward or layout.width_of(int(n_bytes or 0))
        with click.progressbar(length=layout.bytes_of(width), label=target.name, file=sys.stderr) as bar:
            write_wide_copy(source, target, width, fill, bar.update)
    except (WideError, ValueError) as error:  # the reader raises ValueError for what is no GGUF
        raise click.ClickException(f"{source}: {error}") from None
    except OSError as error:
        raise click.ClickException(f"{target}: {error.strerror or error}") from None
    click.echo(f"{target}: feed-forward {layout.feed_forward} -> {width}, {layout.bytes_of(width)} bytes of weights")


if __name__ == "__main__":
    main()
