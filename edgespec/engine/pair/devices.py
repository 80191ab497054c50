"""Where a second model may run on this machine: on the CPU, on llama.cpp's GPU, on what ONNX Runtime has a provider
for.

Names devices and knows no times: which of them is taken is decided by what was measured there.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.backend import machine
from edgespec.backend.onnx.providers import installed_providers
from edgespec.config import cache_dir
from edgespec.errors import BadInput
from edgespec.records import Records

AUTO, CPU, GPU = "auto", "cpu", "gpu"

# Providers that compute outside the cores on which the target may run. Others are taken when they are named: "Azure"
# asks a network, OpenVINO and XNNPACK usually take the same cores as the CPU's own.
ACCELERATORS = ("CoreML", "CUDA", "ROCM", "MIGraphX", "Dml", "QNN")


def gpu_free_bytes() -> tuple[int, ...]:
    """Of each that llama.cpp would use. Loads the library."""
    from edgespec.backend.llama import devices

    return devices.gpu_free_bytes()


def gpus() -> int:
    """How many llama.cpp would use."""
    return len(gpu_free_bytes())


def providers() -> tuple[str, ...]:
    """ONNX Runtime's. Raises what `installed_providers` raises."""
    return installed_providers(Records(cache_dir() / "providers.json"))


@dataclass(frozen=True, slots=True)
class Devices:
    """wished: AUTO, or the name of one. n_gpus, providers: asked only where a device beside the CPU is in question."""

    wished: str = AUTO
    n_gpus: Callable[[], int] = gpus
    providers: Callable[[], Seq[str]] = providers

    def for_gguf(self) -> tuple[str, ...]:
        """Those to try for a GGUF, the CPU first. Raises BadInput for one that it cannot run on."""
        wished = self.wished.casefold()
        if wished == CPU:
            return (CPU,)
        if wished not in (AUTO, GPU):
            why = "a GGUF drafts on llama.cpp, which has cpu and gpu"
            raise BadInput(f"--draft-device {self.wished}", why, "name one of them, or 'edgespec export' the draft")
        if self.n_gpus():
            return (CPU, GPU) if wished == AUTO else (GPU,)
        if wished == AUTO:
            return (CPU,)
        raise BadInput(f"--draft-device {self.wished}", "llama.cpp finds no GPU here", "take cpu, or a build for a GPU")

    def for_step(self) -> tuple[str, ...]:
        """Those to try for a step model, by their providers' short names, the CPU first. Raises BadInput for one that
        is not there, and what `providers` raises.
        """
        wished = self.wished.casefold().removesuffix("executionprovider")
        if wished == CPU:
            return (CPU,)
        there = self.providers()
        if wished == AUTO:
            return (CPU, *(name for name in ACCELERATORS if name in there))
        for name in there:
            if wished == name.casefold():
                return (name,)
        here = ", ".join([CPU, *(name for name in there if name.casefold() != CPU)])
        why = f"a step model runs on ONNX Runtime, and this build of it has {here}"
        raise BadInput(f"--draft-device {self.wished}", why, "name one of these, or install another build")


def free_bytes(device: str) -> int:
    """Of the memory that a draft there takes."""
    own = gpu_free_bytes()[:1] if device == GPU else ()
    return max(own, default=0) or machine.available_memory_bytes()


def takes_core(device: str) -> bool:
    """Whether a draft there works on a core that the target would use."""
    return device != GPU and device not in ACCELERATORS


def on_device(text: str, device: str) -> str:
    """A name or a fingerprint of a draft, told apart from that of the same draft on the CPU."""
    return text if device == CPU else f"{text} on {device}"
