"""Drafters that guess well, badly and strangely, and a witness that checks what the loop tells them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from edgespec.draft.lookup import LookupDrafter
from edgespec.spec.ports import Commit, Drafter, IntArray, Needs, Plan, Rows
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, leaves, tree_of
from tests.spec.random_trees import path


class WildDrafter:
    """Random trees: right tokens with chance `skill` where that is possible, siblings, doubles, senseless survival."""

    needs = Needs.TOKENS

    def __init__(
        self, name: str, truth: Sequence[int], n_vocab: int, skill: float, seed: int, mode: DraftMode = DraftMode.POINT
    ) -> None:
        self.name = name
        self._truth = truth
        self._n_vocab = n_vocab
        self._skill = skill
        self._random = Random(seed)
        self._mode = mode
        self._n_seen = 0

    def begin(self, sequence: int, prompt: IntArray) -> None: ...

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        chance = self._random.random
        tokens: list[int] = []
        parents: list[int] = []
        survival: list[float] = []
        n_right = {-1: 0}  # nodes on the plain path -> their depth
        for node in range(self._random.randint(0, plan.max_nodes)):
            parent = node - 1 if chance() < 0.7 else self._random.randint(-1, node - 1)
            token = self._random.randrange(self._n_vocab)
            ahead = self._n_seen + n_right.get(parent, len(self._truth))
            if ahead < len(self._truth):
                right, wrong = self._truth[ahead], (self._truth[ahead] + 1) % self._n_vocab
                token = right if chance() < self._skill else wrong
                if token == right:
                    n_right[node] = n_right[parent] + 1
            tokens.append(token)
            parents.append(parent)
            survival.append((survival[parent] if parent >= 0 else 1.0) * self._random.choice((1.0, 0.9, 0.5, 0.0)))
            if len(leaves(tree_of(tokens, parents, survival))) > plan.max_leaves:
                del tokens[-1], parents[-1], survival[-1]
                break
        return tree_of(tokens, parents, survival, [self._random.randint(0, 255) for _ in tokens], self._mode)

    def behind(self, sequence: int) -> int:
        return 0

    def anticipate(self, sequence: int, tree: DraftTree) -> None: ...

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._n_seen += len(commit.tokens)

    def end(self, sequence: int) -> None: ...


class Witness:
    """Passes everything on, and checks that the plan is kept and that each own node is found again."""

    def __init__(self, inner: Drafter) -> None:
        self.name = inner.name
        self.needs = inner.needs
        self.own = EMPTY
        self._inner = inner
        self._verified = EMPTY
        self._n_output = 0
        self._was_asked = False

    def begin(self, sequence: int, prompt: IntArray) -> None:
        self._inner.begin(sequence, prompt)

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        self.own = self._inner.propose(sequence, plan)
        self._was_asked = True
        assert len(self.own) <= plan.max_nodes
        assert len(leaves(self.own)) <= max(plan.max_leaves, 0)
        return self.own

    def behind(self, sequence: int) -> int:
        return self._inner.behind(sequence)

    def anticipate(self, sequence: int, tree: DraftTree) -> None:
        self._verified = tree
        self._inner.anticipate(sequence, tree)

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        assert len(nodes) == (len(self.own) if self._was_asked else 0)
        self._was_asked = False
        for own, verified in enumerate(nodes.tolist()):
            assert verified < 0 or path(self._verified, verified) == path(self.own, own)
        assert len(commit.tokens) == len(commit.path) + 1
        # Row 0 and those of the path have just been read; asking again must give the same memory.
        assert rows.logits(0) is rows.logits(0)
        self._n_output += len(commit.tokens)
        self._inner.observe(sequence, commit, rows, nodes)

    def end(self, sequence: int) -> None:
        self._inner.end(sequence)

    def guessed(self, tokens: tuple[int, ...]) -> bool:
        """Whether the last own tree holds this path."""
        return any(path(self.own, node) == tokens for node in range(len(self.own)))


class FollowingWitness(Witness):
    """Checks also that what is said to be silent is."""

    def __init__(self, inner: LookupDrafter) -> None:
        super().__init__(inner)
        self._lookup = inner
        self._was_silent = False

    def is_silent(self, sequence: int, least_claim: float = 0.0) -> bool:
        return self._remember(self._lookup.is_silent(sequence, least_claim), least_claim)

    def follow(self, sequence: int, tokens: Sequence[int], least_claim: float = 0.0) -> bool:
        assert len(tokens) == 1
        assert not self._was_silent or self._lookup.is_silent(sequence), "nothing has changed since it was asked"
        self._n_output += 1
        self.own = EMPTY
        return self._remember(self._lookup.follow(sequence, tokens, least_claim), least_claim)

    def _remember(self, silent: bool, least_claim: float) -> bool:
        """A poor guess may be kept back this time and told the next."""
        self._was_silent = silent and not least_claim
        return silent
