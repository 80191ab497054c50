"""What a caller may choose: once for an engine, and for every answer. Plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from edgespec.choice import DraftChoice
from edgespec.errors import BadInput
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import USUAL_SEQUENCES
from edgespec.spec.ratio import PATH, VERIFIER_NAMES
from edgespec.text.grammar import Grammar

# A small model can talk in circles for ever; this much text is an essay, and the answer says that it was cut.
DEFAULT_MAX_TOKENS = 1024
# As many as the OpenAI API gives beside a token.
MAX_TOP_LOGPROBS = 20
# One pass has so many rows, and llama.cpp ids for so many sequences with a tree each.
MAX_PARALLEL = 32


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a model is run. `threads` None: the machine's cores. `gpu_layers` None: all where the build has a GPU.

    extra_buffers: llama.cpp may repack weights and use AMX, where the build survives it. tune_when_idle: a model that
    was not measured yet is, in processes of its own, while nothing is asked. draft_model: a second model that drafts, a
    GGUF, a step model's folder, or a name; None lets a known pair's draft be used where it is on disk and was measured
    to pay, "" never. draft_device: where it runs: "cpu", "gpu", an execution provider of ONNX Runtime for a step model,
    or "auto" for the one of these that was measured to gain most. corpus: files and folders of texts that answers may
    resemble. remember: keep answers on this machine, to draft from them later. parallel: answers made at a time (1 to
    32), and conversations kept in the cache; further ones wait, and the one longest out of use is read again.
    """

    ctx_size: int = 4096
    threads: int | None = None
    gpu_layers: int | None = None
    extra_buffers: bool = True
    tune_when_idle: bool = False
    draft_model: str | None = None
    draft_device: str = "auto"
    corpus: tuple[Path, ...] = ()
    remember: bool = False
    parallel: int = USUAL_SEQUENCES

    def __post_init__(self) -> None:
        _at_least("--ctx-size", self.ctx_size, 64)
        _at_least("--threads", self.threads, 1)
        _at_least("--gpu-layers", self.gpu_layers, -1)
        _at_least("--parallel", self.parallel, 1)
        if self.parallel > MAX_PARALLEL:
            raise BadInput(f"--parallel {self.parallel}", f"one pass has room for {MAX_PARALLEL}", "give fewer")


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """How one answer is made. prediction: text the caller expects, drafted from. exact: bit for bit as without
    drafting. verify: how drafts are judged. grammar: the shape it must have; an answer that `max_tokens` cuts short is
    the beginning of such a text. n_top_logprobs: score every token, with so many alternatives (0 to 20); None for no
    log probabilities.
    """

    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    max_tokens: int = DEFAULT_MAX_TOKENS
    stop: tuple[str, ...] = ()
    exact: bool = False
    draft: DraftChoice = DraftChoice.AUTO
    prediction: str = ""
    verify: str = PATH
    grammar: Grammar | None = None
    n_top_logprobs: int | None = None

    def __post_init__(self) -> None:
        _at_least("--max-tokens", self.max_tokens, 1)
        if self.verify not in VERIFIER_NAMES:
            known = ", ".join(VERIFIER_NAMES)
            raise BadInput(f"--verify {self.verify}", "there is no such verifier", f"choose among {known}")
        if self.exact and self.verify != PATH:
            why = "what it emits depends on what was drafted, so it cannot be bit for bit plain decoding"
            raise BadInput(f"--verify {self.verify} with --exact", why, f"use '--verify {PATH}'")
        if isinstance(self.stop, str):
            why = "each of its letters would be one"
            raise BadInput(f"stop strings {self.stop!r}", why, f"give a tuple of them: ({self.stop!r},)")
        if "" in self.stop:
            raise BadInput("stop string ''", "an empty text would end every answer before it begins", "leave it out")
        if self.n_top_logprobs is not None and not 0 <= self.n_top_logprobs <= MAX_TOP_LOGPROBS:
            what, why = f"--logprobs {self.n_top_logprobs}", "it is how many alternatives stand beside a token"
            raise BadInput(what, why, f"give 0 to {MAX_TOP_LOGPROBS}")


def _at_least(name: str, value: int | None, least: int) -> None:
    if value is not None and not isinstance(value, int):  # nan, for one, is never reached
        raise BadInput(f"{name} {value}", "it counts, so it is a whole number", "give one")
    if value is not None and value < least:
        raise BadInput(f"{name} {value}", f"the least possible is {least}", "give a larger number")
