"""A drafter that may crash, lie or be late, made harmless: it can cost time, never the answer.

Contract: `GuardedDrafter` is a drafter that returns only valid trees within the plan, and that raises nothing but what
should end the program (KeyboardInterrupt, SystemExit). A fault is reported once per kind, then the drafter sits out
rounds, twice as many after each further fault, and is tried again. It goes on seeing every begin, commit and end
meanwhile; a sequence in which it failed to follow a commit is closed to it until that sequence begins anew. A call that
never returns cannot be broken off from here: such drafters run in a thread or process with a deadline of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np

from edgespec.events import Notice
from edgespec.spec.ports import Commit, Drafter, Follower, IntArray, Plan, Rows, SequenceId
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, check_tree, n_leaves

# Long enough that a drafter failing every time costs little, short enough that one hiccup is soon forgotten.
_FIRST_SIT_OUT = 8

# Without a cap a drafter with rare faults would be gone for good in a long session.
_LONGEST_SIT_OUT = 1024

# A notice is one line on a terminal.
_LONGEST_REASON = 160

RAISED = "draft-raised"
INVALID = "draft-invalid"
LATE = "draft-late"


class GuardedDrafter:
    """Wraps `inner`. `clock` gives seconds; `on_trouble` gets the notices. Both belong to the engine and are trusted.

    A sit-out is counted in rounds, that is in `propose` calls, of all sequences together.
    """

    def __init__(
        self, inner: Drafter, n_vocab: int, clock: Callable[[], float], on_trouble: Callable[[Notice], None]
    ) -> None:
        self.name = inner.name
        self.needs = inner.needs
        self._inner = inner
        self._follower = inner if isinstance(inner, Follower) else None
        self._n_vocab = n_vocab
        self._clock = clock
        self._on_trouble = on_trouble
        self._reported: set[str] = set()
        self._closed: set[SequenceId] = set()
        # Sequences whose current round it sits out; the last such round counts too, when no rounds are left to sit out.
        self._resting: set[SequenceId] = set()
        self._n_proposed: dict[SequenceId, int] = {}  # nodes of its last tree, until a commit is told
        self._rounds_out = 0
        self._next_sit_out = _FIRST_SIT_OUT
        self._n_good = 0

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        self._closed.discard(sequence)
        self._n_proposed.pop(sequence, None)
        self._told(sequence, lambda: self._inner.begin(sequence, prompt))

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        """The inner drafter's tree, or an empty one. A late tree is used, since it is paid for, but is a fault."""
        self._resting.discard(sequence)
        if self._rounds_out:
            self._rounds_out -= 1
            self._resting.add(sequence)
            return EMPTY
        if sequence in self._closed or plan.max_nodes <= 0:
            return EMPTY
        self._n_proposed.pop(sequence, None)
        started = self._clock()
        try:
            tree = self._inner.propose(sequence, plan)
        except Exception as error:  # whatever a drafter does wrong must not reach the answer
            self._fault(RAISED, _described(error))
            return EMPTY
        seconds = self._clock() - started
        if tree is EMPTY and seconds <= plan.deadline_seconds:
            return EMPTY  # nothing to check
        return self._accepted(sequence, tree, plan, seconds)

    def behind(self, sequence: SequenceId) -> int:
        """0 while the drafter sits out: it will not be asked. Raising, or an answer that is no count, is a fault."""
        if self._rounds_out or sequence in self._closed:
            return 0
        try:
            n_behind = self._inner.behind(sequence)
            if isinstance(n_behind, int) and n_behind >= 0:
                return n_behind
            objection = f"it says that it is {n_behind!r} tokens behind"[:_LONGEST_REASON]
        except Exception as error:  # as in propose
            self._fault(RAISED, _described(error))
            return 0
        self._fault(INVALID, objection)
        return 0

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Not passed on while the drafter sits out: it would work for a proposal that nobody asks for."""
        if self._rounds_out or sequence in self._resting or sequence in self._closed:
            return
        try:
            self._inner.anticipate(sequence, tree)
        except Exception as error:  # as in propose; its state still follows the commits
            self._fault(RAISED, _described(error))

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Passed on also while the drafter sits out. The nodes of a tree that nobody got to see are told as cut: it was
        refused, or its pass was broken off and the drafter was not asked again.
        """
        if sequence in self._closed:
            return
        n_proposed = self._n_proposed.pop(sequence, 0)
        if n_proposed != len(nodes):
            nodes = np.full(n_proposed, -1, np.int32)
        self._told(sequence, lambda: self._inner.observe(sequence, commit, rows, nodes))

    def is_silent(self, sequence: SequenceId, least_claim: float = 0.0) -> bool:
        """False while it sits out: those rounds are counted by asking."""
        if self._follower is None or self._rounds_out or sequence in self._closed:
            return False
        try:
            return self._follower.is_silent(sequence, least_claim) is True
        except Exception as error:  # as in propose
            self._fault(RAISED, _described(error))
            return False

    def follow(self, sequence: SequenceId, tokens: Seq[int], least_claim: float = 0.0) -> bool:
        """As `observe`: one that fails is made to forget the sequence."""
        if self._follower is None or sequence in self._closed:
            return False
        try:
            return self._follower.follow(sequence, tokens, least_claim) is True and not self._rounds_out
        except Exception as error:  # as in propose
            self._closed.add(sequence)
            self._fault(RAISED, _described(error))
            self._ended(sequence)
            return False

    def end(self, sequence: SequenceId) -> None:
        self._n_proposed.pop(sequence, None)
        self._resting.discard(sequence)
        if sequence in self._closed:
            self._closed.discard(sequence)
            return
        self._ended(sequence)

    def _accepted(self, sequence: SequenceId, tree: DraftTree, plan: Plan, seconds: float) -> DraftTree:
        objection = _objection(tree, plan, self._n_vocab)
        self._n_proposed[sequence] = _size(tree)
        if objection:
            self._fault(INVALID, objection)
            return EMPTY
        if seconds > plan.deadline_seconds:
            self._fault(LATE, f"it took {seconds * 1e3:.1f} ms of {plan.deadline_seconds * 1e3:.1f} ms")
        elif len(tree):
            self._praise()
        return tree

    def _told(self, sequence: SequenceId, tell: Callable[[], None]) -> None:
        """Pass on news. A drafter that fails to take it in no longer knows the sequence, and is made to forget it."""
        try:
            tell()
        except Exception as error:  # as in propose
            self._closed.add(sequence)
            self._fault(RAISED, _described(error))
            self._ended(sequence)

    def _ended(self, sequence: SequenceId) -> None:
        try:
            self._inner.end(sequence)
        except Exception as error:  # as in propose
            self._fault(RAISED, _described(error))

    def _fault(self, code: str, reason: str) -> None:
        self._rounds_out = self._next_sit_out
        self._next_sit_out = min(2 * self._next_sit_out, _LONGEST_SIT_OUT)
        self._n_good = 0
        if code not in self._reported:
            self._reported.add(code)
            self._on_trouble(Notice(code, f"drafter {self.name}: {reason}; it pauses, the answer goes on without it"))

    def _praise(self) -> None:
        """Forgiveness is as slow as the last sit-out was long: then the next one is half as long."""
        self._n_good += 1
        if self._n_good >= self._next_sit_out:
            self._n_good = 0
            self._next_sit_out = max(_FIRST_SIT_OUT, self._next_sit_out // 2)


def _described(error: Exception) -> str:
    try:
        said = " ".join(str(error).split())[:_LONGEST_REASON]
    except Exception:  # an exception's own text is the drafter's code too
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _objection(tree: DraftTree, plan: Plan, n_vocab: int) -> str:
    """Why this tree cannot be used, or "" if it can. `tree` may be anything at all."""
    try:
        if not isinstance(tree, DraftTree):
            return f"it proposed a {type(tree).__name__} instead of a tree"
        check_tree(tree, n_vocab)
        if not isinstance(tree.mode, DraftMode):
            return f"it proposed a tree of mode {tree.mode!r}"
        if len(tree) > plan.max_nodes:
            return f"it proposed {len(tree)} nodes of at most {plan.max_nodes}"
        if n_leaves(tree) > plan.max_leaves:
            return f"it proposed {n_leaves(tree)} leaves of at most {plan.max_leaves}"
    except Exception as error:  # a malformed object can fail a check in any way
        return _described(error)
    return ""


def _size(tree: DraftTree) -> int:
    """Nodes the drafter believes it proposed; 0 if that cannot be told."""
    try:
        return len(tree)
    except Exception:  # as in _objection
        return 0
