"""Names of split models."""

from pathlib import Path

import pytest

from edgespec.errors import CorruptModel, ModelNotFound
from edgespec.library.split import is_model_name, part_names, split_parts

NAMES = ("m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf")


@pytest.mark.parametrize("name", NAMES)
def test_any_part_names_them_all(name: str, tmp_path: Path) -> None:
    for part in NAMES:
        (tmp_path / part).touch()
    assert part_names(name) == NAMES
    assert split_parts(tmp_path / name) == tuple(tmp_path / part for part in NAMES)


def test_a_whole_model_is_its_only_part(tmp_path: Path) -> None:
    assert part_names("model.gguf") == ("model.gguf",)
    assert split_parts(tmp_path / "model.gguf") == (tmp_path / "model.gguf",)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    (tmp_path / NAMES[0]).touch()
    (tmp_path / NAMES[2]).touch()
    with pytest.raises(ModelNotFound, match=r"m-00002-of-00003\.gguf: part 2 of the 3 parts"):
        split_parts(tmp_path / NAMES[2])


@pytest.mark.parametrize("name", ["m-00004-of-00003.gguf", "m-00000-of-00002.gguf", "m-00001-of-00000.gguf"])
def test_a_part_outside_the_count_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptModel, match="counts more parts"):
        split_parts(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "stands_for_a_model"),
    [
        ("model.gguf", True),
        ("MODEL.GGUF", True),
        (NAMES[0], True),
        (NAMES[1], False),
        ("mmproj-model-f16.gguf", False),
        ("model.imatrix.gguf", False),
        ("model.safetensors", False),
        ("gguf", False),
    ],
)
def test_is_model_name(name: str, stands_for_a_model: bool) -> None:
    assert is_model_name(name) is stands_for_a_model
