"""What is known of a draft beside one target here: what its steps cost, and how often it is right.

Found in the records of this machine, or measured: some seconds, while nothing else may run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgespec.engine.pair.devices import Devices, takes_core
from edgespec.engine.pair.everyday import QUESTIONS, Everyday
from edgespec.engine.pair.second import Second
from edgespec.engine.progress import OnProgress, Progress, Stage
from edgespec.errors import GivenUp
from edgespec.library.header import GgufHeader
from edgespec.spec.outcomes import constant
from edgespec.tune.agreement import (
    RANKS,
    PairAcceptance,
    Text,
    measure_acceptance,
    own_texts,
    save_acceptance,
    stored_acceptance,
)
from edgespec.tune.decide import PRIOR_ACCEPTANCE
from edgespec.tune.pair import PairTimes, measure_pair, pair_records, save_pair, stored_pair
from edgespec.tune.tuning import Tuned

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget

# Cells of the context that a pair is measured in: its texts are short.
_MEASURED_CELLS = 2048
# A drafter's name where none matters.
_ANY = ""
# Tokens that the target says to each prompt. Six prompts make 192, and a slow target that has taken so long already
# stops after the fourth. On a machine that others keep busy there is an end, too.
_ANSWER_TOKENS = 32
_LEAST_TEXTS, _ENOUGH_SECONDS = 4, 15.0
_MOST_SECONDS = 45.0
# Parts of the whole measurement that are over when the times are known, and when the target has spoken.
_TIMED, _SPOKEN = 0.3, 0.8


@dataclass(frozen=True, slots=True)
class Host:
    """The opened target that a draft is to fit. tuned: what was measured with its settings. library: fingerprint.
    everyday: makes the prompts that a draft is tried on. devices: where drafts of it may run.
    """

    header: GgufHeader
    target: LlamaTarget
    tuned: Tuned | None
    library: str
    everyday: Callable[[], Everyday]
    devices: Devices = field(default_factory=Devices)

    @property
    def n_threads(self) -> int:
        return self.target.settings.n_threads

    @property
    def on_gpu(self) -> bool:
        return self.target.settings.n_gpu_layers != 0


@dataclass(frozen=True, slots=True)
class PairFacts:
    """acceptance: None where it was not measured; then what small drafts usually reach is assumed."""

    times: PairTimes
    acceptance: PairAcceptance | None = None

    @property
    def survivals(self) -> tuple[float, ...]:
        """By depth, of the draft's chains, as it was measured."""
        return self.acceptance.survivals if self.acceptance else constant(PRIOR_ACCEPTANCE)

    @property
    def believed(self) -> tuple[float, ...]:
        """The same as a policy believes them that begins with what was measured, which is less: no way to run a draft
        gives more than what its policy dares to draft.
        """
        return believed(self.acceptance) if self.acceptance else constant(PRIOR_ACCEPTANCE)

    @property
    def ranks(self) -> tuple[float, ...]:
        return self.acceptance.ranks if self.acceptance else RANKS

    @property
    def top1(self) -> float:
        """The share of the target's tokens that the draft would have said."""
        return self.acceptance.top1 if self.acceptance else PRIOR_ACCEPTANCE


def believed(acceptance: PairAcceptance) -> tuple[float, ...]:
    """Survival by depth, as of a policy's first round."""
    return tuple(acceptance.experience((_ANY,)).expected(0, _ANY, len(acceptance.survivals)))


def known_facts(fingerprint: str, host: Host) -> PairFacts | None:
    """Of the draft with this fingerprint; None where its times were not measured."""
    path, records = host.header.path, pair_records()
    times = stored_pair(path, fingerprint, host.library, host.n_threads, records)
    return PairFacts(times, known_acceptance(fingerprint, host)) if times else None


def known_acceptance(fingerprint: str, host: Host) -> PairAcceptance | None:
    """It may be known where times are not: it is the same with any number of threads."""
    return stored_acceptance(host.header.path, fingerprint, host.library, pair_records())


def measured_facts(
    second: Second,
    host: Host,
    times: PairTimes | None = None,
    acceptance: PairAcceptance | None = None,
    on_progress: OnProgress | None = None,
) -> PairFacts:
    """Measure what is not handed in, and keep each part as soon as it is there.

    Raises what both models raise, and GivenUp where the callback gives it up.
    """
    path, records, tell = host.header.path, pair_records(), _Teller(second.name, on_progress)
    with closing(host.target.sibling(min(_MEASURED_CELLS, host.target.settings.n_ctx))) as bench:
        if times is None:
            tell("timing steps", 0.0)
            apart = host.on_gpu or not takes_core(second.device)
            times = measure_pair(bench, second.make, host.n_threads, apart, time.perf_counter)
            save_pair(path, second.fingerprint, host.library, host.n_threads, records, times)
        if acceptance is None:
            acceptance = _acceptance(second, host, bench, tell)
            save_acceptance(path, second.fingerprint, host.library, records, acceptance)
    return PairFacts(times, acceptance)


def _acceptance(second: Second, host: Host, bench: LlamaTarget, tell: _Teller) -> PairAcceptance:
    texts: list[Text] = []
    tell("the model speaks", _TIMED)
    for text in everyday_texts(host, bench):
        texts.append(text)
        tell("the model speaks", _TIMED + (_SPOKEN - _TIMED) * len(texts) / len(QUESTIONS))
    with closing(second.make(max(1, host.n_threads))) as step:
        return measure_acceptance(step, _told(texts, tell))


def _told(texts: Seq[Text], tell: _Teller) -> Iterator[Text]:
    for n_done, text in enumerate(texts):
        tell("the draft follows", _SPOKEN + (1.0 - _SPOKEN) * n_done / len(texts))
        yield text


class _Teller:
    """Reports the part that is done. Raises GivenUp where that is answered with False."""

    def __init__(self, name: str, on_progress: OnProgress | None) -> None:
        self._name = name
        self._on_progress = on_progress

    def __call__(self, doing: str, part: float) -> None:
        if self._on_progress is None:
            return
        if self._on_progress(Progress(Stage.TUNE, part, 1.0, f"measuring {self._name}: {doing}")) is False:
            what = f"did not measure the draft {self._name}"
            raise GivenUp(what, "it was given up", "do it again, or take '--draft-model none'")


def everyday_texts(host: Host, bench: LlamaTarget) -> Iterator[Text]:
    """128 to 192 tokens of the target's own, fewer where answers are shorter. bench: an idle target over its model."""
    asked = host.everyday()
    began = time.perf_counter()
    told = own_texts(bench, asked.prompts, _ANSWER_TOKENS, asked.ends, time.perf_counter)
    for n_texts, text in enumerate(told, 1):
        yield text
        if time.perf_counter() - began > (_ENOUGH_SECONDS if n_texts >= _LEAST_TEXTS else _MOST_SECONDS):
            return
