"""An engine over the toy, whole or with a planted defect, and the honest copy that its answers are replayed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from edgespec.backend.settings import LlamaSettings
from edgespec.backend.toy import ToyModel
from edgespec.bench.prompts import Prompt
from edgespec.check.compare import Comparer
from edgespec.engine import Engine, GenerateOptions
from edgespec.engine.core import Extras
from edgespec.engine.sockets import Reopenable
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, Target
from edgespec.tune.tuning import Tuning
from tests.engine.toy_engine import EngineTarget, ToyOpened
from tests.planted import Wrapped
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
LIMITS = Capabilities(n_ctx=512, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
CLEAR = ToyModel(n_vocab=VOCAB.n_vocab, order=3, seed=2)
# Of few levels, so that the leaders are often level, and rounding decides.
LEVEL = ToyModel(n_vocab=VOCAB.n_vocab, order=3, seed=2, n_levels=2)
# Three letters only, so that texts repeat themselves and lookup finds what to copy.
LETTERS = SamplingSettings(banned=tuple(token for token in range(VOCAB.n_vocab) if token not in list(b"abc")))
OPTIONS = GenerateOptions(LETTERS, max_tokens=48)
PROMPTS = [Prompt(str(i), "tales", text) for i, text in enumerate(("acab", "bbac", "cacc", "abba", "ccba", "babc"))]


class Late(Exception):
    """Never raised: a toy pass takes no time."""


class Steadily(Wrapped):
    """A target, planted or not, with what the engine needs beside; the toy underneath has it, but for threads."""

    def __init__(self, target: Target, toy: EngineTarget) -> None:
        super().__init__(target)
        self._inner = toy
        self.interrupted: type[Exception] = toy.interrupted
        self.late: type[Exception] = Late
        self.settings = toy.settings

    def reopen(self, settings: LlamaSettings) -> None: ...

    def set_threads(self, n: int, n_batch: int = 0) -> None: ...

    def limit_passes(self, seconds: float) -> None: ...

    def interrupt(self) -> None:
        self._inner.interrupt()

    def resume(self) -> None:
        self._inner.resume()

    def close(self) -> None:
        self._inner.close()


class Opened:
    """A Model over any target, without a chat template: its end would make all prompts end alike."""

    def __init__(self, target: Reopenable, like: ToyOpened, widths: tuple[int, ...]) -> None:
        self.target = target
        self.vocab, self.settings = like.vocab, like.settings
        self.header = replace(like.header, chat_template=None)
        self.tuning, self.tuned = like.tuning, like.tuned
        self._widths = widths

    def width_class(self, notify: object) -> tuple[int, ...]:
        return self._widths

    def agreeing_threads(self, notify: object) -> tuple[int, ...]:
        return ()

    def measure(self, should_stop: object) -> Tuning | None:
        return self.tuning


@contextmanager
def comparer_over(
    model: ToyModel,
    plant: Callable[[Target], Target] | None = None,
    rounding: bool = False,
    widths: tuple[int, ...] = (),
) -> Iterator[Comparer]:
    """Its replays run on a copy without the planted defect."""
    inner = EngineTarget(model, LIMITS, rounding=rounding)
    target = Steadily(plant(inner) if plant else inner, inner)
    copy = EngineTarget(model, LIMITS, rounding=rounding)
    opened = Opened(target, ToyOpened(inner), widths)
    with Engine(opened, "toy", [], Extras(FixedPolicy())) as engine, Comparer(engine, lambda: copy) as one:
        yield one
