"""What a GGUF says of itself, read without loading it and with the standard library alone.

Checks that the file is whole: a download that stopped early, a damaged header and a file that is no GGUF each get a
sentence of their own. Knows nothing of how a model is run.
"""

from __future__ import annotations

import difflib
import mmap
import os
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import CorruptModel, ModelNotFound, UnsupportedModel
from edgespec.library.container import VERSIONS, Container, DamageError, TensorInfo, Value, parse_container
from edgespec.library.quant import file_type_name
from edgespec.library.sniff import GGUF_MAGIC, N_SNIFFED_BYTES, describe
from edgespec.library.split import split_parts

# Magic, version, two counts.
_MIN_BYTES = 24

# No file is larger; a header that asks for more is damaged, and "incomplete" would be the wrong word.
_MAX_BYTES = 1 << 50


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Facts of one model. A count is 0 and a text "" where the file does not state it.

    path: the first of `parts`. kind: `general.type`, "model" for language models. head_counts_kv: one entry when all
    blocks agree, else one per block. sliding_window: tokens, 0 for full attention. n_parameters, tensor_bytes,
    required_bytes: summed over all parts. values: every scalar, text and short array, by its full key.
    """

    path: Path
    parts: tuple[Path, ...]
    version: int
    kind: str
    architecture: str
    name: str
    size_label: str
    quantisation: str
    context_length: int
    block_count: int
    embedding_length: int
    feed_forward_length: int
    head_count: int
    head_counts_kv: tuple[int, ...]
    key_length: int
    value_length: int
    sliding_window: int
    n_vocab: int
    chat_template: str | None
    split_count: int
    split_no: int
    n_parameters: int
    tensor_bytes: int
    required_bytes: int
    values: Mapping[str, Value]
    tensors: tuple[TensorInfo, ...]

    @property
    def has_chat_template(self) -> bool:
        return self.chat_template is not None


def read_header(path: Path) -> GgufHeader:
    """Read and check a GGUF, all its parts when it is split. Any part may be given.

    Raises ModelNotFound (no such file, a part is missing), CorruptModel (no GGUF, incomplete, damaged),
    UnsupportedModel (a version this module does not read).
    """
    _require_file(path)
    parts = split_parts(path)
    containers = [_read_container(part) for part in parts]
    first = containers[0]
    n_expected = _number(first, "split.count") or 1
    if n_expected != len(parts):
        raise CorruptModel(
            str(path),
            f"it belongs to a model of {n_expected} parts, but its name speaks of {len(parts)}",
            "keep the names the parts were published under, and keep them in one folder",
        )
    return _facts(parts, containers)


def _require_file(path: Path) -> None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ModelNotFound(str(path), f"it cannot be opened ({why})", _nearby(path)) from None
    if stat.S_ISDIR(mode):
        raise CorruptModel(str(path), "it is a folder", _nearby(path / "model.gguf"))
    if not stat.S_ISREG(mode):
        raise CorruptModel(str(path), "it is no regular file", "give a GGUF file")


def _nearby(path: Path) -> str:
    """A remedy that names the GGUF files beside a path that did not lead to one."""
    try:
        names = sorted(
            entry.name for entry in path.parent.iterdir() if entry.suffix.lower() == ".gguf" and entry.is_file()
        )
    except (OSError, ValueError):
        return "check the path; 'edgespec models' lists what is there"
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5) or names[:3]
    if close:
        return f"did you mean {' or '.join(str(path.parent / name) for name in close)}?"
    return "check the path; 'edgespec models' lists what is there"


def _read_container(path: Path) -> Container:
    try:
        with path.open("rb") as file:
            n_bytes = os.fstat(file.fileno()).st_size
            head = file.read(N_SNIFFED_BYTES)
            if not head.startswith(GGUF_MAGIC):
                raise CorruptModel(str(path), *describe(head))
            if n_bytes < _MIN_BYTES:
                raise CorruptModel(str(path), f"it ends after {n_bytes} bytes", "download it again")
            _require_version(path, head)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                container = parse_container(buffer)
    except OSError as error:
        raise ModelNotFound(str(path), f"it cannot be read ({error.strerror})", "check the file's rights") from None
    except DamageError as damage:
        raise CorruptModel(str(path), f"the file is incomplete or damaged: {damage}", "download it again") from None
    _require_whole(path, n_bytes, container)
    return container


def _require_version(path: Path, head: bytes) -> None:
    version = int.from_bytes(head[4:8], "little")
    if version in VERSIONS:
        return
    if int.from_bytes(head[4:8], "big") in VERSIONS:
        why = "it is a GGUF for big-endian machines"
    else:
        why = f"it is a GGUF of version {version}, and edgespec reads versions 2 and 3"
    raise UnsupportedModel(str(path), why, "download a current, little-endian GGUF of the model")


def _require_whole(path: Path, n_bytes: int, container: Container) -> None:
    required = container.required_bytes
    if required > _MAX_BYTES:
        raise CorruptModel(str(path), f"its header asks for a file of {required} bytes", "download it again")
    if required > n_bytes:
        raise CorruptModel(
            str(path),
            f"the download is incomplete: the file has {n_bytes} bytes and its header asks for {required}",
            "download it again",
        )


def _facts(parts: tuple[Path, ...], containers: list[Container]) -> GgufHeader:
    first = containers[0]
    tensors = tuple(tensor for container in containers for tensor in container.tensors)
    arch = _text(first, "general.architecture")
    head_count = _number(first, f"{arch}.attention.head_count")
    embedding = _number(first, f"{arch}.embedding_length")
    # llama.cpp's rule for files that leave the head size out.
    head_length = embedding // head_count if head_count else 0
    template = first.values.get("tokenizer.chat_template")
    return GgufHeader(
        path=parts[0],
        parts=parts,
        version=first.version,
        kind=_text(first, "general.type") or "model",
        architecture=arch,
        name=_text(first, "general.name") or parts[0].stem,
        size_label=_text(first, "general.size_label"),
        quantisation=_quantisation(first, tensors),
        context_length=_number(first, f"{arch}.context_length"),
        block_count=_number(first, f"{arch}.block_count"),
        embedding_length=embedding,
        feed_forward_length=_number(first, f"{arch}.feed_forward_length"),
        head_count=head_count,
        head_counts_kv=_per_block(first, f"{arch}.attention.head_count_kv") or (head_count,),
        key_length=_number(first, f"{arch}.attention.key_length") or head_length,
        value_length=_number(first, f"{arch}.attention.value_length") or head_length,
        sliding_window=_number(first, f"{arch}.attention.sliding_window"),
        n_vocab=first.array_lengths.get("tokenizer.ggml.tokens", 0) or _number(first, f"{arch}.vocab_size"),
        chat_template=template if isinstance(template, str) and template else None,
        split_count=len(parts),
        split_no=_number(first, "split.no"),
        n_parameters=sum(tensor.n_items for tensor in tensors),
        tensor_bytes=sum(tensor.n_bytes for tensor in tensors),
        required_bytes=sum(container.required_bytes for container in containers),
        values=first.values,
        tensors=tensors,
    )


def _quantisation(container: Container, tensors: tuple[TensorInfo, ...]) -> str:
    """The stated file type, else the tensor type that fills most of the file."""
    stated = container.values.get("general.file_type")
    name = file_type_name(stated) if isinstance(stated, int) else ""
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[tensor.type.name] += tensor.n_bytes or tensor.n_items
    return name or (sizes.most_common(1)[0][0] if sizes else "")


def _text(container: Container, key: str) -> str:
    value = container.values.get(key)
    return value if isinstance(value, str) else ""


def _number(container: Container, key: str) -> int:
    """A count; the largest one where a file states one per block."""
    return max(_per_block(container, key), default=0)


def _per_block(container: Container, key: str) -> tuple[int, ...]:
    value = container.values.get(key, ())
    items = value if isinstance(value, tuple) else (value,)
    counts = tuple(int(item) for item in items if isinstance(item, int) and item >= 0)
    return counts[:1] if len(set(counts)) == 1 else counts
