"""What a file that is no GGUF is called."""

import pytest

from edgespec.library.sniff import describe

PAGE = b"\n<!DOCTYPE html>\n<html><body>404"
SAFETENSORS = (64).to_bytes(8, "little") + b'{"__metadata__":{}}'
TAR = b"model.bin".ljust(257, b"x") + b"ustar\0"


@pytest.mark.parametrize(
    ("head", "meaning"),
    [
        (b"", "empty"),
        (b"\0" * 512, "zeros"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"\x80\x02}q\0", "PyTorch"),
        (b"tjgg\x03\0\0\0", "before GGUF"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"%PDF-1.7", "PDF"),
        (PAGE, "web page"),
        (b"<?xml version='1.0'?><Error>", "web page"),
        (SAFETENSORS, "safetensors"),
        (TAR, "tar archive"),
        (b"\x7fELF\x02", "program"),
        (b"hello world", "it is no GGUF file"),
    ],
)
def test_describe(head: bytes, meaning: str) -> None:
    why, remedy = describe(head)
    assert meaning in why
    assert remedy


def test_git_lfs_pointer_has_its_own_remedy() -> None:
    assert "git lfs pull" in describe(b"version https://git-lfs.github.com/spec/v1")[1]
