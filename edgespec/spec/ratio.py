"""Verifiers that weigh the target's law p against the law q that a draft was drawn from: accept x with min(1, p/q),
else draw from what is left of p. Written to be read beside the formulas, not to be fast.

They need what the path verifier does not: drafts whose choice used no randomness of the target's, so COUPLED drafts are
refused; a tree that stopped causally and was never cut after it was drawn; and draws of their own, fresh every round.
Each names what it can treat exactly and refuses the rest with CannotVerify. A guess that was not drawn (mode POINT) has
the law that is 1 at itself. Siblings of a SAMPLED tree were drawn one after the other without replacement, in node
order; those of a REPEATED tree independently of each other.

Sources: token-wise: Leviathan, Kalman and Matias (2023), Chen et al. (2023). Block: Sun et al. (2024). Several
children: Miao et al. (SpecInfer, 2023) for independent ones; Jeon et al. (2024) and Chen et al. (Sequoia, 2024) for
those without replacement. Traversal: Weng et al. (2025).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq

import numpy as np

from edgespec.errors import EngineFailure
from edgespec.spec.draws import Dense, Draws, KeyedDraws, MakeDraws
from edgespec.spec.law import Law, Sparse
from edgespec.spec.ports import Commit, Rows, TokenLaw, Verifier
from edgespec.spec.tree import DraftMode, DraftTree, is_chain
from edgespec.spec.verify import PathVerifier, Prefix


class CannotVerify(EngineFailure):
    """A draft that the chosen verifier cannot treat exactly."""


class _Walk:
    """One tree with the laws along its paths. Node -1 is the root, the last committed token."""

    def __init__(self, tree: DraftTree, rows: Rows, law: TokenLaw, history: Seq[int]) -> None:
        if not isinstance(law, Law):
            raise TypeError("a ratio verifier needs a law that states its probabilities")
        self.tree = tree
        self.tokens: list[int] = tree.tokens.tolist()
        self.parents: list[int] = tree.parents.tolist()
        self.children: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            self.children.setdefault(parent, []).append(node)
        self.seed = law.settings.seed
        self._rows = rows
        self._law = law
        self._history = history

    def path(self, node: int) -> list[int]:
        """The nodes from the root's child down to `node`."""
        path: list[int] = []
        while node >= 0:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def p(self, node: int) -> Dense:
        """float64[n_vocab]: the target's law of the token after `node`."""
        logits = self._rows.logits(node + 1)
        text = Prefix(self._history, [self.tokens[one] for one in self.path(node)])
        return _dense(self._law.probabilities(logits, text), len(logits))

    def q(self, node: int, n_vocab: int) -> Dense:
        """float64[n_vocab]: the law that the children of `node` were drawn from."""
        sparse = self.tree.laws[node + 1]
        if sparse is None:
            raise ValueError(f"node {node} has children and no law of theirs")
        return _dense(sparse, n_vocab)

    def siblings(self, node: int, n_vocab: int) -> Iterator[tuple[int, Dense]]:
        """The children of `node` in order, each with the law of its draw given those before it."""
        children = self.children.get(node, [])
        if self.tree.mode is DraftMode.POINT:
            yield from ((child, _one_hot(self.tokens[child], n_vocab)) for child in children)
        elif children:
            q = self.q(node, n_vocab)
            for child in children:
                yield child, q
                q = q if self.tree.mode is DraftMode.REPEATED else _without(q, self.tokens[child])

    def commit(self, node: int, bonus: int, limit: int, end_tokens: frozenset[int]) -> Commit:
        """The path down to `node` and the bonus after it, cut at the limit and behind the first end token."""
        path = self.path(node)
        tokens = [*(self.tokens[one] for one in path), bonus][:limit]
        ends = next((place for place, token in enumerate(tokens) if token in end_tokens), len(tokens) - 1)
        return Commit(np.array(path[:ends], np.int32), np.array(tokens[: ends + 1], np.int32))


class _Ratio:
    """name: as `--verify` spells it. modes, chains_only: what it treats exactly."""

    name = ""
    modes: frozenset[DraftMode] = frozenset()
    chains_only = False

    def __init__(self, make_draws: MakeDraws = KeyedDraws) -> None:
        self._make_draws = make_draws

    def walk(
        self,
        tree: DraftTree,
        rows: Rows,
        law: TokenLaw,
        history: Seq[int],
        limit: int,
        end_tokens: frozenset[int],
    ) -> Commit:
        """See `ports.Verifier`. Raises CannotVerify, ValueError if `limit` is below 1, and what the law raises."""
        if limit < 1:
            raise ValueError(f"limit is {limit}, but a walk emits at least one token")
        self._check(tree)
        walk = _Walk(tree, rows, law, history)
        node, bonus = self.verdict(walk, self._make_draws(walk.seed, len(history)))
        return walk.commit(node, bonus, limit, end_tokens)

    def verdict(self, walk: _Walk, draws: Draws) -> tuple[int, int]:
        """The last accepted node, and the bonus after it: from the root down, unless a verifier judges otherwise."""
        return _descend(walk, draws)

    def _check(self, tree: DraftTree) -> None:
        if not len(tree):
            return
        if tree.mode.is_drawn and not tree.laws:
            raise self._refusal("it does not say what its guesses were drawn from")
        if tree.mode not in self.modes:
            raise self._refusal(f"its guesses were chosen in mode {tree.mode.name}")
        if self.chains_only and not is_chain(tree):
            raise self._refusal("it has branches")

    def _refusal(self, why: str) -> CannotVerify:
        return CannotVerify(
            f"--verify {self.name} cannot treat this draft exactly",
            why,
            "use '--verify path', which treats every draft",
        )


class RejectionVerifier(_Ratio):
    """Token-wise rejection of a chain: accept x with min(1, p/q), else emit a draw from norm((p - q)+) and stop."""

    name = "rejection"
    modes = frozenset({DraftMode.POINT, DraftMode.SAMPLED})
    chains_only = True


class SiblingVerifier(_Ratio):
    """Deterministic children (EAGLE-2's trees, lookahead's, n-grams): each in order is accepted with p(x); when it is
    not, p loses it. Together they are accepted with the sum of their p.
    """

    name = "sibling-set"
    modes = frozenset({DraftMode.POINT})


class SpecInferVerifier(_Ratio):
    """Children drawn independently from q: one round of rejection each, p becoming norm((p - q)+) in between."""

    name = "specinfer"
    modes = frozenset({DraftMode.REPEATED})


class RecursiveVerifier(_Ratio):
    """Children drawn without replacement: as SpecInfer's, with q losing each child that was refused, renormalised."""

    name = "recursive"
    modes = frozenset({DraftMode.POINT, DraftMode.SAMPLED})


class BlockVerifier(_Ratio):
    """A chain judged as a whole: r_i = min(1, r_{i-1} p/q), R_i = sum (r_i p - q)+, and the longest i is kept whose own
    draw is at most h_i = R_i / (R_i + 1 - r_i), at the chain's end h_N = r_N. Accepts no less than token by token.
    """

    name = "block"
    modes = frozenset({DraftMode.POINT, DraftMode.SAMPLED})
    chains_only = True

    def verdict(self, walk: _Walk, draws: Draws) -> tuple[int, int]:
        n = len(walk.tokens)
        p = [walk.p(node) for node in range(-1, n)]
        q = [next(walk.siblings(node, len(p[0])))[1] for node in range(-1, n - 1)]
        r = [1.0]
        for i, token in enumerate(walk.tokens):
            r.append(min(1.0, r[i] * float(p[i][token] / q[i][token])))
        for i in range(n, 0, -1):
            if draws.flip(r[i] if i == n else _keep(r[i], p[i], q[i])):
                return i - 1, draws.pick(p[n] if i == n else _left(r[i], p[i], q[i]))
        return -1, draws.pick(_left(1.0, p[0], q[0]) if n else p[0])


class TraversalVerifier(_Ratio):
    """A tree judged from its leaves up: the same quantities as block verification, a refused child leaving its share of
    p and of the acceptance to the siblings after it. On a chain it is block verification.
    """

    name = "traversal"
    modes = frozenset({DraftMode.POINT, DraftMode.SAMPLED})

    def verdict(self, walk: _Walk, draws: Draws) -> tuple[int, int]:
        mass, p = {-1: 1.0}, {-1: walk.p(-1)}
        n_vocab = len(p[-1])
        open_ = {-1: walk.siblings(-1, n_vocab)}
        drawn_from: dict[int, Dense] = {}
        node = -1
        while True:
            child = next(open_[node], None)
            if child is not None:
                below, q = child
                token = walk.tokens[below]
                drawn_from[below] = q
                mass[below] = min(1.0, mass[node] * float(p[node][token] / q[token]))
                p[below], open_[below] = walk.p(below), walk.siblings(below, n_vocab)
                node = below
            elif node < 0 or draws.flip(mass[node]):
                return node, draws.pick(p[node])
            else:
                parent, q = walk.parents[node], drawn_from[node]
                kept = _keep(mass[parent], p[parent], q)
                p[parent], mass[parent] = _left(mass[parent], p[parent], q), kept
                node = parent


VERIFIERS: tuple[type[_Ratio], ...] = (
    RejectionVerifier,
    BlockVerifier,
    SiblingVerifier,
    SpecInferVerifier,
    RecursiveVerifier,
    TraversalVerifier,
)


# The path verifier's name, which every draft suits; and all names.
PATH = "path"
VERIFIER_NAMES = (PATH, *(verifier.name for verifier in VERIFIERS))


def verifier_of(name: str) -> Verifier:
    """Raises KeyError for another name."""
    makes: dict[str, Callable[[], Verifier]] = {PATH: PathVerifier, **{one.name: one for one in VERIFIERS}}
    return makes[name]()


def _descend(walk: _Walk, draws: Draws) -> tuple[int, int]:
    """From the root down, child by child: accept, or take its law out of p and try the next sibling."""
    node = -1
    while True:
        p = walk.p(node)
        accepted = -1
        for child, q in walk.siblings(node, len(p)):
            token = walk.tokens[child]
            if draws.flip(min(1.0, float(p[token] / q[token]))):
                accepted = child
                break
            p = _left(1.0, p, q)
        if accepted < 0:
            return node, draws.pick(p)
        node = accepted


def _left(r: float, p: Dense, q: Dense) -> Dense:
    """norm((r p - q)+). Where nothing is left it is reached with no chance but rounding's, and p will do."""
    rest: Dense = np.maximum(r * p - q, 0.0)
    total = float(rest.sum())
    return rest / total if total > 0.0 else p


def _keep(r: float, p: Dense, q: Dense) -> float:
    """R / (R + 1 - r) with R = sum (r p - q)+; 0 where nothing is left to keep."""
    rest = float(np.maximum(r * p - q, 0.0).sum())
    return rest / (rest + max(0.0, 1.0 - r)) if rest > 0.0 else 0.0


def _dense(sparse: Sparse, n_vocab: int) -> Dense:
    p = np.zeros(n_vocab)
    p[sparse.ids] = sparse.p
    return p


def _one_hot(token: int, n_vocab: int) -> Dense:
    law = np.zeros(n_vocab)
    law[token] = 1.0
    return law


def _without(q: Dense, token: int) -> Dense:
    """q given that `token` was drawn before; all zeros when it was the only possible one."""
    rest: Dense = q.copy()
    rest[token] = 0.0
    total = float(rest.sum())
    rest /= total if total > 0.0 else 1.0
    return rest
