"""The library's log: silent, and the cause of a failure found in it. The lines are llama.cpp's own."""

from __future__ import annotations

import pytest

from edgespec.backend.llama.log import DEBUG, ERROR, Log, log

INFO, WARN, CONTINUED = 2, 3, 5

GARBAGE = [
    (ERROR, "gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'"),
    (ERROR, "llama_model_load: error loading model: llama_model_loader: failed to load model from /x.gguf"),
    (ERROR, "llama_model_load_from_file_impl: failed to load model"),
]
ARCHITECTURE = [
    (INFO, "print_info: file type   = all F32"),
    (ERROR, "llama_model_load: error loading model: unknown model architecture: 'llamb'"),
    (ERROR, "llama_model_load_from_file_impl: failed to load model"),
]
VOCABULARY = [
    (
        ERROR,
        "llama_model_load: error loading model: error loading model vocabulary: unknown pre-tokenizer type: 'gpt-9'",
    ),
]
MEMORY = [
    (WARN, "llama_context: n_ctx_seq (536870912) > n_ctx_train (4096) -- possible training context overflow"),
    (DEBUG, "set_abort_callback: call"),
    (ERROR, "ggml_aligned_malloc: insufficient memory (attempted to allocate 6144.00 MB)"),
    (ERROR, "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 6442450944"),
    (ERROR, "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache"),
]
CONTEXT = [(ERROR, "llama_init_from_model: failed to initialize the context: n_seq_max must be <= 256")]
DOTS = [(INFO, "load_tensors: loading model tensors"), (CONTINUED, "."), (CONTINUED, "."), (CONTINUED, "")]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (GARBAGE, "invalid magic characters: 'hell', expected 'GGUF'"),
        (ARCHITECTURE, "unknown model architecture: 'llamb'"),
        (VOCABULARY, "unknown pre-tokenizer type: 'gpt-9'"),
        (MEMORY, "insufficient memory (attempted to allocate 6144.00 MB)"),
        (CONTEXT, "n_seq_max must be <= 256"),
        (DOTS, "loading model tensors"),
        ([], "llama.cpp gave no reason"),
    ],
    ids=["garbage", "architecture", "vocabulary", "memory", "context", "dots", "nothing"],
)
def test_the_first_error_is_the_cause(lines: list[tuple[int, str]], reason: str) -> None:
    ring = Log()
    for level, line in lines:
        ring.callback(level, f"{line}\n".encode(), None)
    assert ring.reason() == reason


def test_a_reason_is_given_once() -> None:
    """So that the next failure does not show the cause of this one."""
    ring = Log()
    ring.callback(ERROR, b"decode: invalid token[1] = 448\n", None)
    assert ring.reason() == "invalid token[1] = 448"
    ring.callback(ERROR, b"decode: failed to find a memory slot\n", None)
    ring.forget()
    assert ring.reason() == "llama.cpp gave no reason"


def test_old_lines_make_room() -> None:
    ring = Log()
    ring.callback(ERROR, b"first: one\n", None)
    for line in range(200):
        ring.callback(INFO, f"note: number {line}\n".encode(), None)
    assert ring.reason() == "number 199"


def test_bytes_that_are_no_text_are_shown_somehow() -> None:
    ring = Log()
    ring.callback(ERROR, b"load: bad key '\xff\xfe'\n", None)
    assert ring.reason() == "bad key '\ufffd\ufffd'"


def test_the_process_has_one_log() -> None:
    assert log() is log()
