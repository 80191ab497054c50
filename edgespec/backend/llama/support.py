"""Which models can be asked for one token after the other, and why the others cannot. Reads a loaded model's own
statements; runs nothing.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import llama_cpp

from edgespec.errors import UnsupportedModel

# Enough for the name of an architecture and for every number.
VALUE_BYTES = 256


@dataclass(frozen=True, slots=True)
class Traits:
    """What decides whether a model can talk. pooled: it joins its rows into one vector, as embedding models do."""

    architecture: str
    has_vocabulary: bool = True
    has_encoder: bool = False
    has_decoder: bool = True
    diffusion: bool = False
    causal: bool = True
    pooled: bool = False


def traits(model: llama_cpp.llama_model_p) -> Traits:
    vocab = llama_cpp.llama_model_get_vocab(model)
    architecture = _value(model, "general.architecture")
    return Traits(
        architecture,
        has_vocabulary=llama_cpp.llama_vocab_type(vocab) != llama_cpp.LLAMA_VOCAB_TYPE_NONE,
        has_encoder=bool(llama_cpp.llama_model_has_encoder(model)),
        has_decoder=bool(llama_cpp.llama_model_has_decoder(model)),
        diffusion=bool(llama_cpp.llama_model_is_diffusion(model)),
        causal=_value(model, f"{architecture}.attention.causal") != "false",
        pooled=_value(model, f"{architecture}.pooling_type") not in ("", "0"),
    )


def refusal(found: Traits) -> str:
    """Why this model cannot continue a text; "" when it can."""
    if not found.has_vocabulary:
        return "it has no vocabulary, so text cannot be turned into tokens"
    if found.has_encoder and found.architecture in ("eagle3", "dflash"):
        return "it is a draft head, which only works inside the model it was trained for"
    if found.has_encoder and found.has_decoder:
        return "it is an encoder-decoder model, which edgespec does not run"
    if found.diffusion:
        return "it is a diffusion model, which does not write one token after the other"
    if found.pooled or not found.causal or not found.has_decoder:
        return "it is an embedding model, which does not write text"
    return ""


def require_support(path: Path, model: llama_cpp.llama_model_p) -> None:
    """Raises UnsupportedModel."""
    why = refusal(traits(model))
    if why:
        raise UnsupportedModel(f"cannot answer with {path}", why, "choose a text generation model")


def can_roll_back(model: llama_cpp.llama_model_p) -> bool:
    """Whether single tokens can be taken out of the model's memory again: not out of a running state."""
    return not (llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model))


def _value(model: llama_cpp.llama_model_p, key: str) -> str:
    """A value of the GGUF as text, "" when the file does not state it."""
    buffer = ctypes.create_string_buffer(VALUE_BYTES)
    size = llama_cpp.llama_model_meta_val_str(model, key.encode(), buffer, VALUE_BYTES)
    return buffer.value.decode("utf-8", "replace") if size >= 0 else ""
