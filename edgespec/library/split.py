"""Names of GGUF files: which stand for a model, and models cut into several, name-00001-of-00003.gguf. Opens none."""

from __future__ import annotations

import re
from pathlib import Path

from edgespec.errors import CorruptModel, ModelNotFound

_PART_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


# Files that go with a model and are none: image projectors, importance matrices.
_COMPANIONS = ("mmproj", "imatrix")


def is_model_name(file_name: str) -> bool:
    """True for a GGUF that stands for a whole model: no companion, and of a split model the first part alone."""
    name = file_name.lower()
    match = _PART_NAME.fullmatch(name)
    is_later_part = match is not None and int(match["number"]) > 1
    return name.endswith(".gguf") and not is_later_part and not any(word in name for word in _COMPANIONS)


def part_names(file_name: str) -> tuple[str, ...]:
    """The names of all parts of the model that `file_name` belongs to, in order; itself when it is not cut."""
    match = _PART_NAME.fullmatch(file_name)
    if match is None:
        return (file_name,)
    stem, count, suffix = match["stem"], match["count"], file_name[-5:]
    return tuple(f"{stem}-{number:05d}-of-{count}{suffix}" for number in range(1, int(count) + 1))


def split_parts(path: Path) -> tuple[Path, ...]:
    """All files of a model, given any one of them. Raises ModelNotFound when one is missing."""
    parts = tuple(path.with_name(name) for name in part_names(path.name))
    if parts != (path,) and path not in parts:
        raise CorruptModel(str(path), "its name counts more parts than there are", "give the file its own name back")
    for number, part in enumerate(parts, start=1):
        if part != path and not part.is_file():
            raise ModelNotFound(
                str(part),
                f"part {number} of the {len(parts)} parts of this model is missing",
                f"download it into {path.parent}",
            )
    return parts
