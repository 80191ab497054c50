"""A desk over toy engines, whose passes a test can hold and count, and which note the threads they are called in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from apps.desk.desk import Desk
from apps.desk.opening import Loaded, Means, Wanted
from apps.desk.task import Task
from edgespec import Answer, Completion, Conversation, Engine, Extras, GenerateOptions, Notice, SamplingSettings
from edgespec.backend.toy import ToyModel
from edgespec.choice import DraftChoice
from edgespec.engine.answer import CancelToken, PieceCallback, RoundCallback
from edgespec.errors import ModelNotFound
from edgespec.library.resolve import ResolvedModel
from edgespec.spec.policy import Explanation, FixedPolicy
from edgespec.spec.ports import Capabilities, Drafter
from tests.engine.toy_engine import EngineTarget, ToyOpened
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
MODEL = ToyModel(n_vocab=VOCAB.n_vocab, seed=4)
LIMITS = Capabilities(n_ctx=1000, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
# It speaks in a few words, so that it repeats itself: then there is something to copy. And it never ends by itself.
WORDS = frozenset(VOCAB.tokenize("ab the\n"))
SAMPLING = SamplingSettings(banned=tuple(set(range(VOCAB.n_vocab)) - WORDS))
SHORT = GenerateOptions(SAMPLING, max_tokens=60)
LONG = GenerateOptions(SAMPLING, max_tokens=700)
DEADLINE_SECONDS = 30.0


class NotingEngine(Engine):
    """Notes in which threads it is used."""

    def __init__(self, target: EngineTarget, idents: set[int], drafters: tuple[Drafter, ...] | None) -> None:
        idents.add(threading.get_ident())
        self._idents = idents
        super().__init__(ToyOpened(target), "toy", [], Extras(FixedPolicy(), drafters))

    def conversation(self, system: str = "", template: str | None = None) -> Conversation:
        self._idents.add(threading.get_ident())
        return super().conversation(system, template)

    def submit(  # the signature is the engine's own
        self,
        sequence: int,
        keep: bool,
        prompt: list[int],
        options: GenerateOptions | None = None,
        cancel: CancelToken | None = None,
        on_piece: PieceCallback | None = None,
        on_done: Callable[[Completion], None] | None = None,
        on_round: RoundCallback | None = None,
        notices: tuple[Notice, ...] = (),
    ) -> Answer:
        self._idents.add(threading.get_ident())
        return super().submit(sequence, keep, prompt, options, cancel, on_piece, on_done, on_round, notices)

    def explain(
        self, context: int, choice: DraftChoice = DraftChoice.AUTO, width_class: tuple[int, ...] = ()
    ) -> Explanation | None:
        self._idents.add(threading.get_ident())
        return super().explain(context, choice, width_class)

    def release(self, sequence: int) -> None:
        self._idents.add(threading.get_ident())
        super().release(sequence)

    def close(self) -> None:
        self._idents.add(threading.get_ident())
        super().close()


@dataclass
class Toy:
    """What a test can look at: the targets in the order they were opened, threads, what was tuned.

    before_load: called in the errand's thread; it may wait, and raise.
    """

    targets: list[EngineTarget] = field(default_factory=list)
    idents: set[int] = field(default_factory=set)
    tuned: list[str] = field(default_factory=list)
    drafters: tuple[Drafter, ...] | None = None
    before_load: Callable[[Task], None] = lambda _task: None
    before_tune: Callable[[Task], None] = lambda _task: None

    @property
    def target(self) -> EngineTarget:
        return self.targets[-1]

    def means(self) -> Means:
        return Means(self._find, self._load, self._tune)

    def _find(self, wanted: Wanted, task: Task) -> ResolvedModel:
        self.idents.add(threading.get_ident())
        name = wanted.model or "toy"
        if name.startswith("missing"):
            raise ModelNotFound(f"model '{name}'", "there is none of that name", "name another")
        return ResolvedModel(Path(f"{name}.gguf"), None, name)

    def _load(self, found: ResolvedModel, task: Task, notify: Callable[[Notice], None]) -> Loaded:
        self.before_load(task)
        task.report("loading", 0.5)
        task.check()
        target = EngineTarget(MODEL, LIMITS)
        self.targets.append(target)
        return Loaded(NotingEngine(target, self.idents, self.drafters), found, lambda _over: ("a cause",))

    def _tune(self, found: ResolvedModel, task: Task, notify: Callable[[Notice], None]) -> None:
        assert self.target.closed.is_set()  # nothing of it is in memory while it is measured
        self.before_tune(task)
        task.check()
        self.tuned.append(found.name)


def until(desk: Desk, is_so: Callable[[], bool]) -> None:
    """Do what a window would, until then."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        desk.drain()
        assert time.monotonic() < ends, "it never came to that"
        time.sleep(0.001)


def settled(desk: Desk) -> None:
    until(desk, lambda: not desk.running)


@contextmanager
def toy_desk(toy: Toy | None = None, options: GenerateOptions = SHORT) -> Iterator[tuple[Desk, Toy]]:
    """With its model open; closed afterwards, with nothing left of it."""
    toy = toy or Toy()
    desk = Desk(toy.means(), options)
    desk.open("toy")
    settled(desk)
    try:
        yield desk, toy
    finally:
        desk.close()
        until(desk, lambda: desk.closed)
    assert not own_threads()
    assert all(target.closed.is_set() for target in toy.targets)


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("edgespec-")]
