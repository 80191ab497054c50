"""The whole engine over the toy target, whose passes a test can hold, break and count; and the plain twin of an answer.

Every wait has a deadline, which a healthy engine never comes near.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgespec.backend.settings import LlamaSettings
from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.draft.guard import GuardedDrafter
from edgespec.engine import Answer, CancelToken, Engine, Extras, GenerateOptions
from edgespec.engine.answer import PieceCallback
from edgespec.engine.job import Request
from edgespec.engine.paced import PacedTarget
from edgespec.engine.policies import Policies
from edgespec.engine.sockets import AgreeingThreads, Suit
from edgespec.engine.worker import Worker
from edgespec.events import Completion, Finish, Notice, RoundReport
from edgespec.library.header import GgufHeader
from edgespec.spec.policy import FixedPolicy, Policy
from edgespec.spec.ports import Capabilities, Commit, Drafter, IntArray, Needs, Plan, Rows, SequenceId, VerifyRequest
from edgespec.spec.tree import EMPTY, DraftTree, chain
from edgespec.text.template import BUILTIN
from edgespec.text.vocab import Vocabulary
from edgespec.tune.tuning import Tuned, Tuning
from tests.spec.plain_decoding import Asked, Plain
from tests.text.test_stops import first_stop
from tests.text.test_stream import n_tokens_holding
from tests.text.toy_vocab import ToyVocabulary

DEADLINE_SECONDS = 60.0

# Few pieces, so that texts repeat themselves: letters, halves of é, a token of two letters, silent and end tokens.
PIECES = (b"a", b"b", b"ab", b"\xc3", b"\xa9", b" ", b"", b"")
SILENT, END = 6, 7


class SmallVocabulary(ToyVocabulary):
    """Ids 0 to 7 are PIECES; the rest is the toy's, and its model never says it."""

    def piece(self, token: int) -> bytes:
        return PIECES[token] if token < len(PIECES) else super().piece(token)

    @property
    def n_vocab(self) -> int:
        return len(PIECES)

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset({END})


class Interrupted(Exception):
    """A pass was broken off."""


class Late(Exception):
    """A pass was given up at its limit."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass. rows: what it read, per sequence; width 0 for a prompt chunk."""

    rows: dict[SequenceId, int]
    width: int


class EngineTarget(ToyTarget):
    """A toy that can be interrupted like a real target, and that keeps a log.

    before_pass: called in the engine's thread ahead of every pass; it may wait, and raise what the pass shall raise.
    origin: for each cached token how it was read, "prompt" or the class of widths.
    """

    def __init__(self, model: ToyModel, limits: Capabilities, window: int = 0, rounding: bool = False) -> None:
        super().__init__(model, limits, window, rounding)
        self.interrupted: type[Exception] = Interrupted
        self.late: type[Exception] = Late
        self.limit_seconds = math.inf
        self.n_threads, self.n_threads_batch = 2, 0
        self.settings = LlamaSettings(
            limits.n_ctx, prefill_chunk=limits.max_chunk, max_rows=limits.max_rows, max_sequences=limits.max_sequences
        )
        self.passes: list[Pass] = []
        self.origin: dict[SequenceId, list[str]] = {}
        self.before_pass: Callable[[Pass], None] | None = None
        self.changed = threading.Condition()
        self.interrupt_wanted = False
        self.closed = threading.Event()
        self._read_by: dict[SequenceId, str] = {}

    def interrupt(self) -> None:
        with self.changed:
            self.interrupt_wanted = True
            self.changed.notify_all()

    def resume(self) -> None:
        with self.changed:
            self.interrupt_wanted = False

    def close(self) -> None:
        self.closed.set()

    def set_threads(self, n: int, n_batch: int = 0) -> None:
        self.n_threads, self.n_threads_batch = n, n_batch

    def limit_passes(self, seconds: float) -> None:
        self.limit_seconds = seconds

    def reopen(self, settings: LlamaSettings) -> None:
        self.settings = settings
        for sequence in list(self.origin):
            self.release(sequence)

    def extend(self, sequence: SequenceId, tokens: IntArray) -> None:
        self._run(Pass({sequence: len(tokens)}, 0))
        super().extend(sequence, tokens)
        self._stamp(sequence, "prompt")

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        self._run(Pass({r.sequence: len(r.pending) + len(r.tree) for r in requests}, width))
        rows = super().verify(requests, width)
        self._read_by.update({r.sequence: str(self._width_class(width)) for r in requests})
        return rows

    def commit(self, sequence: SequenceId, commit: Commit) -> IntArray:
        pending = super().commit(sequence, commit)
        self._stamp(sequence, self._read_by[sequence])
        return pending

    def rewind(self, sequence: SequenceId, length: int) -> int:
        kept = super().rewind(sequence, length)
        self._stamp(sequence, "")
        return kept

    def release(self, sequence: SequenceId) -> None:
        super().release(sequence)
        self.origin.pop(sequence, None)

    @property
    def n_extended(self) -> int:
        """Prompt tokens read so far."""
        return sum(sum(one.rows.values()) for one in self.passes if not one.width)

    def live(self) -> set[SequenceId]:
        """The sequences that have cells."""
        return {sequence for sequence in self.origin if self.length(sequence)}

    def _run(self, one: Pass) -> None:
        assert not self.closed.is_set()
        used = sum(self.length(sequence) for sequence in self.origin)
        # All sequences share one pool of cells, as in real caches; a verify pass has room of its own beyond it.
        assert used + (0 if one.width else sum(one.rows.values())) <= self.capabilities.n_ctx
        if self.before_pass is not None:
            self.before_pass(one)
        if self.interrupt_wanted:
            raise Interrupted
        self.passes.append(one)

    def _stamp(self, sequence: SequenceId, how: str) -> None:
        known = self.origin.setdefault(sequence, [])
        length = self.length(sequence)
        self.origin[sequence] = known[:length] + [how] * (length - len(known))


class Gate:
    """Holds the passes that match, in the engine's thread, until it is opened or the target is interrupted."""

    def __init__(self, target: EngineTarget, matches: Callable[[Pass], bool]) -> None:
        self._target = target
        self._matches = matches
        self._reached = False
        self._open = False
        target.before_pass = self._hold

    def wait_until_reached(self) -> None:
        with self._target.changed:
            assert self._target.changed.wait_for(lambda: self._reached, DEADLINE_SECONDS)

    def open(self) -> None:
        with self._target.changed:
            self._open = True
            self._target.changed.notify_all()

    def _hold(self, one: Pass) -> None:
        if self._open or not self._matches(one):
            return
        with self._target.changed:
            self._reached = True
            self._target.changed.notify_all()
            free = self._target.changed.wait_for(
                lambda: self._open or self._target.interrupt_wanted, timeout=DEADLINE_SECONDS
            )
            self._reached = False
        assert free, "nobody opened the gate"


def done(answer: Answer) -> Completion:
    """The completion, or what the answer failed with."""
    assert answer.wait(DEADLINE_SECONDS)
    return answer.completion()


def said(answer: Answer) -> str:
    """The text of the pieces of an answer that is over."""
    assert answer.wait(DEADLINE_SECONDS)
    return "".join(piece.text for piece in answer)


class Copier:
    """Guesses the right tokens with mistakes: a chain of what the plain answer says, every few rounds a wrong one."""

    name = "copier"
    needs = Needs.TOKENS

    def __init__(self, truth: Sequence[int], n_vocab: int = len(PIECES), n_ahead: int = 4) -> None:
        self._truth = truth
        self._n_vocab = n_vocab
        self._n_ahead = n_ahead
        self._n_seen = 0
        self._n_rounds = 0

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        self._n_seen = 0

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        self._n_rounds += 1
        ahead = list(self._truth[self._n_seen : self._n_seen + min(plan.max_nodes, self._n_ahead)])
        if self._n_rounds % 3 == 0 and ahead:
            ahead[-1] = (ahead[-1] + 1) % self._n_vocab
        return chain(ahead, [0.9] * len(ahead)) if ahead else EMPTY

    def behind(self, sequence: SequenceId) -> int:
        return 0

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None: ...

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._n_seen += len(commit.tokens)

    def end(self, sequence: SequenceId) -> None: ...


class Desk:
    """A worker over a target, and requests to it by what they ask. Drafters are guarded, as the engine does it."""

    def __init__(
        self,
        target: EngineTarget,
        policy: Policy | None = None,
        vocab: Vocabulary | None = None,
        pacing: PacedTarget | None = None,
        agreeing_threads: AgreeingThreads | None = None,
        suit: Suit = lambda _request, _n_cached: False,
    ) -> None:
        self.target = target
        self.vocab = vocab or SmallVocabulary()
        self.widths: tuple[int, ...] = ()
        self.n_asked = 0
        self._drafters: dict[int, tuple[Drafter, ...]] = {}
        self.worker = Worker(
            target,
            self.vocab,
            Policies(own=policy or FixedPolicy(max_nodes=8, max_leaves=3)),
            self._make_drafters,
            self._width_class,
            self.vocab.end_tokens,
            pacing=pacing,
            agreeing_threads=agreeing_threads,
            suit=suit,
        )

    def ask(
        self,
        asked: Asked,
        *drafters: Drafter,
        stop: tuple[str, ...] = (),
        sequence: SequenceId | None = None,
        cancel: CancelToken | None = None,
        on_piece: PieceCallback | None = None,
        on_round: Callable[[RoundReport], None] | None = None,
        on_done: Callable[[Completion], None] | None = None,
    ) -> Answer:
        """A `sequence` of its own is kept after the answer; without one the cache goes with the request."""
        options = GenerateOptions(asked.sampling, asked.max_tokens, stop, exact=bool(asked.widths))
        answer = Answer(cancel or CancelToken(), on_piece)
        keep, name = sequence is not None, 1000 + self.n_asked if sequence is None else sequence
        self.n_asked += 1
        self.widths = asked.widths or self.widths
        self._drafters[id(answer)] = drafters
        self.worker.submit(Request(name, keep, list(asked.prompt), options, answer, on_done, on_round))
        return answer

    def _make_drafters(self, request: Request, notify: Callable[[Notice], None]) -> tuple[Drafter, ...]:
        chosen = self._drafters[id(request.answer)]
        return tuple(GuardedDrafter(one, self.vocab.n_vocab, lambda: 0.0, notify) for one in chosen)

    def _width_class(self, notify: Callable[[Notice], None]) -> tuple[int, ...]:
        return self.widths


@contextmanager
def desk_over(
    target: EngineTarget,
    policy: Policy | None = None,
    vocab: Vocabulary | None = None,
    pacing: PacedTarget | None = None,
    agreeing_threads: AgreeingThreads | None = None,
    suit: Suit = lambda _request, _n_cached: False,
) -> Iterator[Desk]:
    desk = Desk(target, policy, vocab, pacing, agreeing_threads, suit)
    try:
        yield desk
    finally:
        desk.worker.close()
    assert target.closed.is_set()


# -- the plain twin of an answer ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    text: str
    token_ids: tuple[int, ...]
    finish: Finish


def plain_answer(vocab: Vocabulary, plain: Plain, stop: Sequence[str] = ()) -> PlainAnswer:
    """All tokens decoded at once, cut at the first stop string."""
    assert plain.finish is not None
    tokens = plain.output[:-1] if plain.finish is Finish.STOP else plain.output
    pieces = [vocab.piece(token) for token in tokens]
    text = b"".join(pieces).decode("utf-8", "replace")
    end = first_stop(text, list(stop))
    if end is None:
        return PlainAnswer(text, tokens, plain.finish)
    return PlainAnswer(text[:end], tokens[: n_tokens_holding(pieces, end)], Finish.STOP)


def answered(completion: Completion) -> PlainAnswer:
    """What of a completion does not depend on the clock or on drafts."""
    return PlainAnswer(completion.text, completion.token_ids, completion.finish)


# -- a whole engine -----------------------------------------------------------------------------------------------


class ToyOpened:
    """edgespec.engine.sockets.Model over the toy, with the byte vocabulary and the chatml template."""

    def __init__(self, target: EngineTarget, widths: tuple[int, ...] = ()) -> None:
        self.target = target
        self.vocab = ToyVocabulary()
        self.settings = target.settings
        self.header = header()
        self.tuning: Tuning | None = None
        self.tuned: Tuned | None = None
        self._widths = widths

    def width_class(self, notify: Callable[[Notice], None]) -> tuple[int, ...]:
        return self._widths

    def agreeing_threads(self, notify: Callable[[Notice], None]) -> tuple[int, ...]:
        return ()

    def measure(self, should_stop: Callable[[], bool]) -> Tuning | None:
        return self.tuning


def header() -> GgufHeader:
    return GgufHeader(
        path=Path("toy.gguf"),
        parts=(Path("toy.gguf"),),
        version=3,
        kind="model",
        architecture="toy",
        name="toy",
        size_label="",
        quantisation="",
        context_length=0,
        block_count=0,
        embedding_length=0,
        feed_forward_length=0,
        head_count=0,
        head_counts_kv=(),
        key_length=0,
        value_length=0,
        sliding_window=0,
        n_vocab=0,
        chat_template=BUILTIN["chatml"].source,
        split_count=0,
        split_no=0,
        n_parameters=0,
        tensor_bytes=0,
        required_bytes=0,
        values={},
        tensors=(),
    )


@contextmanager
def engine_over(target: EngineTarget, widths: tuple[int, ...] = (), policy: Policy | None = None) -> Iterator[Engine]:
    extras = Extras(policy or FixedPolicy())
    with Engine(ToyOpened(target, widths), "toy", [], extras) as engine:
        yield engine
    assert target.closed.is_set()
