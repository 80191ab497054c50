"""The tables of tensor types against the reference package, and quantisations found in file names."""

import gguf
import pytest

from edgespec.library.quant import file_type_name, quantisation_in_name, tensor_type


def test_tensor_types_are_those_of_the_reference() -> None:
    for kind, (block_items, block_bytes) in gguf.GGML_QUANT_SIZES.items():
        ours = tensor_type(kind.value)
        assert (ours.name, ours.block_items, ours.block_bytes) == (kind.name, block_items, block_bytes)


def test_file_types_are_those_of_the_reference() -> None:
    for kind in gguf.LlamaFileType:
        if kind.name != "GUESSED":
            assert file_type_name(kind.value) == kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")
    assert file_type_name(gguf.LlamaFileType.GUESSED + gguf.LlamaFileType.MOSTLY_Q4_0) == "Q4_0"


def test_unknown_numbers_are_named_by_their_number() -> None:
    assert tensor_type(9999).name == "type 9999"
    assert tensor_type(9999).block_bytes == 0
    assert file_type_name(999) == ""


@pytest.mark.parametrize(
    ("file_name", "quantisation"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("gemma-3-270m-q4_k_m.gguf", "Q4_K_M"),
        ("Model-IQ3_XXS.gguf", "IQ3_XXS"),
        ("model-UD-Q2_K_XL.gguf", "UD-Q2_K_XL"),
        ("model-Q6_K-00001-of-00003.gguf", "Q6_K"),
        ("q8_0/model-BF16.gguf", "BF16"),
        ("gpt-oss-20b-MXFP4.gguf", "MXFP4"),
        ("model.F16.GGUF", "F16"),
        ("bitnet-TQ1_0.gguf", "TQ1_0"),
        ("model-Q4_0_4_4.gguf", "Q4_0"),
        ("llama.gguf", ""),
        ("Qwen3-8B.gguf", ""),
        ("IQ_test.gguf", ""),
    ],
)
def test_quantisation_in_name(file_name: str, quantisation: str) -> None:
    assert quantisation_in_name(file_name) == quantisation
