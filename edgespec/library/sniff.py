"""Names what a file really is when it is no GGUF, from its first bytes. Opens nothing."""

from __future__ import annotations

from typing import Final

GGUF_MAGIC: Final = b"GGUF"

# How many first bytes `describe` wants to see: a tar archive states itself at byte 257.
N_SNIFFED_BYTES: Final = 512

_BY_PREFIX = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file it points to", "fetch the file with 'git lfs pull'"),
    (b"PK\x03\x04", "a zip archive, such as a PyTorch checkpoint or a Python wheel", ""),
    (b"\x80\x02", "a pickled PyTorch checkpoint", ""),
    (b"lmgg", "a GGML file of the time before GGUF", ""),
    (b"fmgg", "a GGML file of the time before GGUF", ""),
    (b"tjgg", "a GGML file of the time before GGUF", ""),
    (b"algg", "a LoRA adapter of the time before GGUF", ""),
    (b"\x1f\x8b", "a gzip archive", "unpack it"),
    (b"\xfd7zXZ", "an xz archive", "unpack it"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it"),
    (b"7z\xbc\xaf", "a 7-zip archive", "unpack it"),
    (b"%PDF", "a PDF document", ""),
    (b"\x7fELF", "a program", ""),
    (b"MZ", "a program", ""),
)
_WEB_PAGES = (b"<!doctype html", b"<html", b"<?xml")
_GET_A_GGUF = "give a GGUF file, which model pages offer as name-GGUF"


def describe(head: bytes) -> tuple[str, str]:
    """What the first bytes say the file is, and what to do about it."""
    if not head:
        return "it is empty", "download it again"
    if not head.strip(b"\0"):
        return "it begins with zeros, as a download does that was reserved and never filled", "download it again"
    for prefix, meaning, remedy in _BY_PREFIX:
        if head.startswith(prefix):
            return f"it is {meaning}", remedy or _GET_A_GGUF
    if head.lstrip().lower().startswith(_WEB_PAGES):
        return "it is a web page, most likely an error page saved in place of the model", "download the file again"
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 30:
        return "it is a safetensors file", _GET_A_GGUF
    if head[257:262] == b"ustar":
        return "it is a tar archive", "unpack it"
    return "it is no GGUF file", _GET_A_GGUF
