"""What a draft network works out for one text: the next draft, and beside the target's pass the drafts after it.

Contract: every `step` calls the network at most a few times, so that whoever calls it can look up in between; what has
been worked out lies in branches, each behind one outcome of the pass. First what follows the verified draft is ranked;
then always the branch grows whose next token is most likely to be of use (chance of the outcome times survival), with
a network without branches only when the one before is finished, since a change there means reading again. Knows no
thread, no epoch and no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from edgespec.draft.messages import Wanted
from edgespec.draft.outcomes import DepthRates, likely_outcomes
from edgespec.draft.sparse import Children, SparseLaw
from edgespec.draft.trunk import Trunk
from edgespec.spec.step import Ranked
from edgespec.spec.verify import Prefix

# Next tokens kept of each row: those ranked lower come true in less than one rejection of twenty.
_N_OPTIONS = 6
# Rounds in a row that nobody asked for a draft: then the network rests until somebody does.
_PATIENCE_ROUNDS = 8


@dataclass(slots=True, eq=False)
class Branch:
    """The draft behind one outcome: `prefix` leads from the text to it, `tokens` follow, rows[j] ranks what comes after
    tokens[:j]. survival: of each token, given the outcome. cell: where the last token but one of `tail` lies, or -1.
    """

    n_accepted: int
    token: int
    prefix: list[int]
    chance: float = 1.0
    cell: int = -1
    tokens: list[int] = field(default_factory=list)
    survival: list[float] = field(default_factory=list)
    rows: list[Children] = field(default_factory=list)
    is_over: bool = False

    @property
    def value(self) -> float:
        return self.chance * (self.survival[-1] if self.survival else 1.0)

    @property
    def tail(self) -> list[int]:
        """From the text to the token that is run next."""
        return [*self.prefix, *self.tokens]

    def grow(self, row: Children, stop_below: float) -> None:
        self.rows.append(row)
        survival = (self.survival[-1] if self.survival else 1.0) * (row.claims[0] if row.claims else 0.0)
        if not row.tokens or survival < stop_below:
            self.is_over = True
            return
        self.tokens.append(row.tokens[0])
        self.survival.append(survival)


class Ahead:
    """The drafts of one sequence. `text`: its committed tokens, which this object lengthens. n_accepted: of the commit
    before, which the first draft is reported by.
    """

    def __init__(
        self,
        trunk: Trunk,
        law: SparseLaw,
        text: list[int],
        rates: DepthRates,
        rows_at_once: int,
        n_accepted: int = 0,
    ) -> None:
        self.text = text
        self.wanted = Wanted()
        self.root = Branch(n_accepted, text[-1] if text else -1, [])
        self._trunk = trunk
        self._law = law
        self._rates = rates
        self._rows_at_once = max(1, min(rows_at_once, trunk.limits.max_rows))
        self._draft: list[int] | None = None
        # None until what follows the draft is ranked.
        self._branches: list[Branch] | None = None
        # Tokens of the draft that the chain of cells holds behind the text.
        self._n_chain = -1
        self._tip: Branch | None = None
        self._n_unasked = 0

    @property
    def has_work(self) -> bool:
        if self._n_unasked > _PATIENCE_ROUNDS or not self._fits([]):
            return False
        if self._draft is None:
            return not self._is_done(self.root)
        return self._branches is None or any(not self._is_done(one) for one in self._branches)

    @property
    def n_behind(self) -> int:
        """Tokens to be read before a draft can be made; 0 where that is one run, or where the text does not fit."""
        n = self._trunk.behind(self.text)
        return n if n >= self._trunk.limits.max_rows else 0

    def is_finished(self, branch: Branch) -> bool:
        """Whether it will not grow any more, however much is asked for."""
        return branch.is_over or not self._fits(branch.tail)

    def ask(self, wanted: Wanted) -> None:
        self._n_unasked = 0
        self.wanted = wanted

    def verify(self, draft: Seq[int], wanted: Wanted | None) -> list[Branch]:
        """The target is verifying `draft`; wanted: what was asked for, and will be next time, None if nothing was.
        Returns what is known already of what comes after it.
        """
        self._n_unasked = 0 if wanted else self._n_unasked + 1
        self.wanted = wanted or self.wanted
        self._draft = list(draft)
        branches: list[Branch] | None = None
        self._tip = None
        n = _n_equal(self.root.tokens, self._draft)
        if n == len(self._draft) < len(self.root.rows) and self._is_extensible(self.root):
            self._n_chain = n
            branches = self._opened(self.root.rows[: n + 1])
        self._branches = branches
        return [one for one in branches or () if one.tokens]

    def commit(self, n_accepted: int, tokens: Seq[int]) -> None:
        """`tokens` follow the text: n_accepted of the draft, -1 if others were accepted, and one more."""
        ready = None
        if self._draft is None:
            ready = self._remainder(list(tokens))
        elif n_accepted >= 0:
            self._rates.observe(n_accepted, len(self._draft))
            keys = {(one.n_accepted, one.token): one for one in self._branches or ()}
            ready = keys.get((n_accepted, tokens[-1]))
        self.text += tokens
        self.root = Branch(n_accepted, tokens[-1], [])
        if ready is not None:
            self.root.tokens, self.root.survival, self.root.rows = ready.tokens, ready.survival, ready.rows
            self.root.is_over = ready.is_over
        self._draft = self._branches = self._tip = None
        self._n_chain = -1

    def step(self, go_on: Callable[[], bool]) -> list[Branch]:
        """Do the next piece of work; returns the branches that it made longer or found to be at their end.

        `go_on` is asked between two calls of the network: if it says no, the same work is taken up again next time.
        Raises what the network raises; then nothing is known to lie in its cells.
        """
        if self._draft is None:
            return self._run([self.root], go_on)
        if self._branches is None:
            self._rank_draft(self._draft, go_on)
            return []
        return self._run(self._due(self._branches), go_on)

    def _due(self, branches: list[Branch]) -> list[Branch]:
        if self._tip is not None and not self._trunk.limits.branches and not self._is_done(self._tip):
            return [self._tip]
        due = sorted((one for one in branches if not self._is_done(one)), key=lambda one: -one.value)
        side_by_side = [one for one in due[: self._rows_at_once] if self._is_extensible(one)]
        if due[0] in side_by_side and self._trunk.limits.branches:
            return side_by_side[: self._trunk.room]
        return due[:1]

    def _run(self, branches: list[Branch], go_on: Callable[[], bool]) -> list[Branch]:
        """Rank what follows each branch. Several only where each can be extended."""
        first = branches[0]
        if self._is_extensible(first):
            start = self._trunk.n_cells
            ranked = self._trunk.extend([_last(one) for one in branches], [one.cell for one in branches])
        else:
            whole = self._rank(first.tail, go_on)
            if whole is None:
                return []
            ranked = whole
            start = self._trunk.n_cells - 1
        self._tip = first
        for row, one in enumerate(branches):
            one.cell = start + row
            one.grow(self._children(ranked, row, one.tail), self.wanted.min_survival)
        return branches

    def _rank_draft(self, draft: list[int], go_on: Callable[[], bool]) -> None:
        """Rank what follows each prefix of the draft as far as that is not known, the rest of the draft in one run."""
        n = _n_equal(self.root.tokens, draft)
        if not self._fits(draft):
            self._branches = []
            return
        ranked = self._rank(draft[:n], go_on)
        if ranked is None:
            return
        rows = [*self.root.rows[:n], self._children(ranked, 0, draft[:n])]
        rest = draft[n : n + self._trunk.limits.max_rows]
        if rest:
            start = self._trunk.n_cells
            ranked = self._trunk.extend(rest, range(start - 1, start - 1 + len(rest)))
            rows += [self._children(ranked, i, draft[: n + i + 1]) for i in range(len(rest))]
            self._n_chain = n + len(rest)
        self._branches = self._opened(rows)

    def _opened(self, rows: list[Children]) -> list[Branch]:
        """A branch for each outcome of the draft; one of them may be what the draft was cut from."""
        draft = self._draft or []
        branches = [
            Branch(one.n_accepted, one.token, [*draft[: one.n_accepted], one.token], one.chance)
            for one in likely_outcomes(draft, rows, self._rates)
        ]
        self._place(branches)
        if _n_equal(self.root.tokens, draft) == len(draft) < len(self.root.tokens):
            rest = self._remainder([*draft, self.root.tokens[len(draft)]])
            for one in branches:
                if rest is not None and rest.tokens and (one.n_accepted, one.token) == (len(draft), rest.token):
                    one.tokens, one.survival, one.rows, one.cell = rest.tokens, rest.survival, rest.rows, self.root.cell

        return branches

    def _remainder(self, tokens: list[int]) -> Branch | None:
        """The root's branch behind its own first tokens, if these are `tokens`."""
        root, n = self.root, len(tokens)
        if root.tokens[:n] != tokens:
            return None
        rest = Branch(n - 1, tokens[-1], tokens)
        for row in root.rows[n : len(root.tokens)]:
            rest.grow(row, 0.0)
        return rest

    def _rank(self, tail: list[int], go_on: Callable[[], bool]) -> Ranked | None:
        """What follows the text and `tail`, which are then all that the cells hold; None if it was broken off."""
        self._hold(-1)
        ranked = self._trunk.rank(self.text + tail, go_on)
        if ranked is not None:
            self._hold(_n_equal(tail, self._draft or []))
        return ranked

    def _hold(self, n_chain: int) -> None:
        """The cells hold the text and n_chain tokens of the draft, and no branch that is known; -1: not even these."""
        self._n_chain = n_chain
        self._tip = None
        self.root.cell = -1
        self._place(self._branches or [])

    def _place(self, branches: list[Branch]) -> None:
        """Where the branches begin, after the cells were cut to a chain."""
        for one in branches:
            held = 0 <= one.n_accepted <= self._n_chain and not one.tokens
            one.cell = len(self.text) + one.n_accepted - 1 if held else -1

    def _is_extensible(self, branch: Branch) -> bool:
        trunk = self._trunk
        is_next = trunk.limits.branches or branch.cell == trunk.n_cells - 1
        return 0 <= branch.cell < trunk.n_cells and is_next and trunk.room > 0

    def _is_done(self, branch: Branch) -> bool:
        return self.is_finished(branch) or (bool(branch.rows) and len(branch.tokens) >= self.wanted.n)

    def _fits(self, tail: list[int]) -> bool:
        return 1 <= len(self.text) + len(tail) <= self._trunk.limits.n_ctx

    def _children(self, ranked: Ranked, row: int, tail: list[int]) -> Children:
        history = Prefix(self.text, tail)
        log_sum = float(ranked.log_sums[row])
        return self._law.children(ranked.ids[row], ranked.logits[row], log_sum, history, _N_OPTIONS, 0.0)


def _last(branch: Branch) -> int:
    return branch.tokens[-1] if branch.tokens else branch.token


def _n_equal(one: Seq[int], two: Seq[int]) -> int:
    n = 0
    while n < min(len(one), len(two)) and one[n] == two[n]:
        n += 1
    return n
