"""Loading on the real library: every failure is an error of its own with a useful reason, and nothing is printed."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import llama_cpp
import pytest

from edgespec.backend.llama import native
from edgespec.backend.llama.native import AbortFlag, LoadedModel, load_model, new_context
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import FlashAttention, KvType
from edgespec.errors import CorruptModel, EdgeSpecError, EngineFailure, NotEnoughMemory, UnsupportedModel
from tests.backend.conftest import SETTINGS, Toys
from tests.backend.llama.driving import read, same, text_of, verify
from tests.backend.llama.variants import with_values
from tools.make_toy_model import Kind, corrupt, truncate


def garbage(path: Path, _source: Path) -> None:
    path.write_bytes(b"hello world" * 100)


def empty(path: Path, _source: Path) -> None:
    path.write_bytes(b"")


def half(path: Path, source: Path) -> None:
    path.write_bytes(source.read_bytes())
    truncate(path, path.stat().st_size // 2)


def half_header(path: Path, source: Path) -> None:
    path.write_bytes(source.read_bytes())
    truncate(path, 300)


def damaged_key(path: Path, source: Path) -> None:
    path.write_bytes(source.read_bytes())
    corrupt(path, 24)


def later_version(path: Path, source: Path) -> None:
    path.write_bytes(b"GGUF" + struct.pack("<I", 9) + source.read_bytes()[8:])


def other_architecture(path: Path, source: Path) -> None:
    with_values(source, path, {"general.architecture": ("parrot", gguf.GGUFValueType.STRING)})


def other_pre_tokenizer(path: Path, source: Path) -> None:
    with_values(source, path, {"tokenizer.ggml.pre": ("gpt-9", gguf.GGUFValueType.STRING)})


def wrong_shape(path: Path, source: Path) -> None:
    with_values(source, path, {"llama.embedding_length": (128, gguf.GGUFValueType.UINT32)})


def lost_tensor(path: Path, source: Path) -> None:
    with_values(source, path, {}, {"blk.1.attn_q.weight": "blk.1.attn_x.weight"})


@pytest.mark.parametrize(
    ("spoil", "error", "why"),
    [
        (garbage, CorruptModel, "invalid magic characters: 'hell'"),
        (empty, CorruptModel, "failed to read magic"),
        (half, CorruptModel, "data is not within the file bounds"),
        (half_header, CorruptModel, "exceeds remaining file size"),
        (damaged_key, CorruptModel, r"\w"),
        (
            later_version,
            UnsupportedModel,
            "this GGUF file is version 9 but this software",
        ),
        (other_architecture, UnsupportedModel, "unknown model architecture: 'parrot'"),
        (other_pre_tokenizer, UnsupportedModel, "unknown pre-tokenizer type: 'gpt-9'"),
        (wrong_shape, CorruptModel, "'token_embd.weight' has wrong shape"),
        (lost_tensor, CorruptModel, "'blk.1.attn_q.weight' not found"),
    ],
)
def test_a_file_that_cannot_be_loaded_says_why(
    spoil: Callable[[Path, Path], None],
    error: type[EdgeSpecError],
    why: str,
    toys: Toys,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "model.gguf"
    spoil(path, toys.path())
    with pytest.raises(error, match=f"cannot load the model .*{why}") as caught:
        load_model(path, SETTINGS)
    assert str(path) in caught.value.what
    assert "llama_model_load" not in caught.value.why
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(CorruptModel, match="No such file"):
        load_model(tmp_path / "absent.gguf", SETTINGS)


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("insufficient memory (attempted to allocate 6144.00 MB)", NotEnoughMemory),
        ("unable to allocate CPU buffer", NotEnoughMemory),
        ("std::bad_alloc", NotEnoughMemory),
        ("mmap failed: Cannot allocate memory", NotEnoughMemory),
        ("tensor 'x' has invalid ggml type 97. should be in [0, 41)", UnsupportedModel),
        ("unknown tokenizer: 'quill'", UnsupportedModel),
        ("tensor 'x' data is not within the file bounds", CorruptModel),
    ],
)
def test_reasons_become_errors(reason: str, error: type[EdgeSpecError]) -> None:
    found = native._load_error(Path("m.gguf"), reason)
    assert type(found) is error
    assert reason in str(found)


@pytest.mark.parametrize("name", ["modèle 模型 🦊.gguf", "a b'c.gguf", "-v.gguf"])
def test_any_file_name_will_do(name: str, toys: Toys, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(toys.path().read_bytes())
    load_model(path, SETTINGS).free()


def test_the_library_is_silent(toys: Toys, capfd: pytest.CaptureFixture[str]) -> None:
    for kind in Kind:
        target = LlamaTarget(load_model(toys.path(kind), SETTINGS), SETTINGS)
        read(target, text_of(1, 20))
        verify(target, [1])
        target.close()
    assert capfd.readouterr() == ("", "")


# -- progress -------------------------------------------------------------------------------------------------------


def test_progress_rises_to_one(toys: Toys) -> None:
    seen: list[float] = []

    def progress(done: float) -> bool:
        seen.append(done)
        return True

    load_model(toys.path(), SETTINGS, progress).free()
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_a_load_can_be_given_up(at: float, toys: Toys, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EngineFailure, match="loading was given up"):
        load_model(toys.path(), SETTINGS, lambda done: done < at)
    load_model(toys.path(), SETTINGS).free()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("the bar broke")], ids=["ctrl-c", "defect"])
def test_what_the_progress_raises_comes_out(
    error: type[BaseException] | BaseException, toys: Toys, capfd: pytest.CaptureFixture[str]
) -> None:
    """And is not printed by ctypes, as what a callback raises otherwise would be."""

    def progress(_done: float) -> bool:
        raise error

    with pytest.raises(error if isinstance(error, type) else type(error)):
        load_model(toys.path(), SETTINGS, progress)
    assert capfd.readouterr() == ("", "")


# -- contexts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "error"),
    [("insufficient memory (attempted to allocate 9 MB)", NotEnoughMemory), ("n_seq_max must be", EngineFailure)],
)
def test_a_context_that_cannot_be_made_says_why(reason: str, error: type[EdgeSpecError]) -> None:
    found = native._context_error(SETTINGS, reason)
    assert type(found) is error
    assert "cannot make a context of 1024 tokens" in str(found)


def test_a_model_is_freed_when_its_context_cannot_be_made(toys: Toys, capfd: pytest.CaptureFixture[str]) -> None:
    """Heads of 16 values cannot be quantised in blocks of 32."""
    model = load_model(toys.path(), SETTINGS)
    settings = replace(SETTINGS, flash_attention=FlashAttention.ON, kv_type=KvType.Q8_0)
    with pytest.raises(EngineFailure, match="K cache type q8_0 with block size 32 does not divide n_embd_head_k=16"):
        LlamaTarget(model, settings)
    with pytest.raises(EngineFailure, match="closed"):
        _ = model.pointer
    assert capfd.readouterr() == ("", "")


def test_a_sibling_that_cannot_be_made_leaves_the_model(toys: Toys, monkeypatch: pytest.MonkeyPatch) -> None:
    target = LlamaTarget(load_model(toys.path(), SETTINGS), SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_init_from_model", lambda _model, _params: None)
        with pytest.raises(EngineFailure):
            target.sibling(64)
    assert verify(target, [1])[0].size == 448
    target.close()


def test_more_ids_than_the_library_has_are_an_error_of_its_own(toys: Toys) -> None:
    model = load_model(toys.path(), SETTINGS)
    with pytest.raises(EngineFailure, match="n_seq_max must be <= 256"):
        new_context(model, SETTINGS, 257, None)
    model.free()


def test_a_freed_model_is_freed_once(toys: Toys) -> None:
    model = load_model(toys.path(), SETTINGS)
    model.free()
    model.free()
    with pytest.raises(EngineFailure, match="cannot use the model: it has been closed"):
        new_context(model, SETTINGS, 1, None)


CACHES = [
    (flash, kv_type)
    for flash in FlashAttention
    for kv_type in KvType
    if kv_type is KvType.F16 or flash is not FlashAttention.OFF
]


@pytest.mark.parametrize(("flash", "kv_type"), CACHES)
def test_every_kind_of_cache_can_be_made(flash: FlashAttention, kv_type: KvType, toys: Toys) -> None:
    settings = replace(SETTINGS, flash_attention=flash, kv_type=kv_type)
    exact = LlamaTarget(load_model(toys.path(head_size=32), SETTINGS), SETTINGS)
    target = LlamaTarget(load_model(toys.path(head_size=32), settings), settings)
    for one in (exact, target):
        read(one, text_of(1, 60))
    row, expected = verify(target, [9])[0], verify(exact, [9])[0]
    assert same(row, expected) == (flash is FlashAttention.OFF and kv_type is KvType.F16)
    assert abs(row - expected).max() < {KvType.F16: 0.1, KvType.Q8_0: 0.5, KvType.Q4_0: 4.0}[kv_type]
    exact.close()
    target.close()


# -- the rest -------------------------------------------------------------------------------------------------------


def test_an_abort_flag_is_strlen() -> None:
    """0 lets a pass go on, 1 ends it."""
    flag = AbortFlag()
    assert (flag.is_set(), flag.callback(flag.data)) == (False, False)
    flag.set()
    assert (flag.is_set(), flag.callback(flag.data)) == (True, True)
    flag.clear()
    assert (flag.is_set(), flag.callback(flag.data)) == (False, False)


def test_a_deadline_raises_the_flag_too_and_is_no_wish() -> None:
    flag = AbortFlag()
    flag.expire()
    assert (flag.is_set(), flag.expired, flag.callback(flag.data)) == (False, True, True)
    flag.clear()
    assert flag.callback(flag.data)
    assert (flag.take_expired(), flag.take_expired()) == (True, False)
    assert not flag.callback(flag.data)


def test_a_wish_outlives_a_deadline() -> None:
    flag = AbortFlag()
    for raise_it in ((flag.set, flag.expire), (flag.expire, flag.set)):
        for one in raise_it:
            one()
        assert flag.take_expired()
        assert (flag.is_set(), flag.callback(flag.data)) == (True, True)
        flag.clear()
        assert (flag.is_set(), flag.callback(flag.data)) == (False, False)


def test_a_wish_at_any_moment_is_never_lost() -> None:
    """Another thread wishes while deadlines come and go."""
    flag = AbortFlag()
    for _ in range(300):
        started = threading.Event()

        def wish(started: threading.Event = started) -> None:
            started.set()
            flag.set()

        other = threading.Thread(target=wish)
        other.start()
        started.wait()
        for _ in range(20):
            flag.expire()
            flag.take_expired()
        other.join()
        assert (flag.is_set(), flag.callback(flag.data)) == (True, True)
        flag.clear()


def test_the_library_is_told_apart() -> None:
    fingerprint = native.library_fingerprint()
    assert fingerprint == native.library_fingerprint()
    assert fingerprint.startswith(f"{llama_cpp.__version__}|")
    assert isinstance(native.supports_gpu(), bool)


def test_a_loaded_model_hands_out_what_it_owns(toys: Toys) -> None:
    model = load_model(toys.path(), SETTINGS)
    assert isinstance(model, LoadedModel)
    assert llama_cpp.llama_model_n_layer(model.pointer) == 3
    model.free()


def test_without_a_gpu_it_does_not_matter_which_one_was_meant(toys: Toys) -> None:
    """The library takes a main GPU out of its list of GPUs, and runs on the CPU where that is empty."""
    model = load_model(toys.path(), replace(SETTINGS, n_gpu_layers=-1, main_gpu=0))
    assert llama_cpp.llama_model_n_layer(model.pointer) == 3
    model.free()


def test_a_gpu_that_is_gone_is_an_error_that_says_what_to_do() -> None:
    error = native._load_error(Path("m.gguf"), "invalid value for main_gpu: 1 (available devices: 1)")
    assert isinstance(error, EngineFailure)
    assert "edgespec tune" in error.remedy
