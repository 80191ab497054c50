"""Toy models with one thing changed, for what a loader has to notice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf

Values = Mapping[str, tuple[object, gguf.GGUFValueType]]
Arrays = Mapping[str, Sequence[object]]


def with_values(
    source: Path,
    target: Path,
    values: Values,
    tensor_names: Mapping[str, str] | None = None,
    arrays: Arrays | None = None,
) -> Path:
    """A copy of a model with other metadata, other contents of arrays it has, and tensors renamed."""
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    stated = values.get("general.architecture", (architecture, gguf.GGUFValueType.STRING))[0]
    writer = gguf.GGUFWriter(target, str(stated))
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture" or field.name in values:
            continue
        inner = field.types[1] if len(field.types) > 1 else None
        contents = (arrays or {}).get(field.name, field.contents())
        writer.add_key_value(field.name, contents, field.types[0], sub_type=inner)
    for name, (value, kind) in values.items():
        if name != "general.architecture":
            writer.add_key_value(name, value, kind)
    for tensor in reader.tensors:
        name = (tensor_names or {}).get(tensor.name, tensor.name)
        writer.add_tensor(name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
