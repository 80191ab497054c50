"""Which policy decides how much a batch drafts: one for each draft choice, so that what one learns is its own.

A policy learns how often guesses are right and what they have cost. Answers that copy from the prompt and answers that
follow a predicted text would teach each other wrongly, and a comparison of both would compare nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from edgespec.choice import LOOKAHEAD, DraftChoice
from edgespec.engine.profiles import Profiles
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.ledger import Entry
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import Explanation, FixedPolicy, Policy

Journal = Callable[[DraftChoice, Entry], None]


# A look-ahead window is as many columns wide, with its guesses beside it. Other drafts are chains: a branch more costs
# as many rows as a longer chain, and adds less.
WINDOW_LEAVES = 8
WINDOW_NODES = 24


def leaves_for(choice: DraftChoice) -> int:
    return WINDOW_LEAVES if choice.asks(LOOKAHEAD) else 1


class Policies:
    """`table`: what passes cost; without one nothing is known, and drafters that were asked for by name draft a fixed
    number of tokens. `journal` gets every ledger entry, in the thread that runs the rounds. `own`: a policy of the
    caller's that decides everything instead. `store`: what was learnt of drafters in earlier runs, and where `close`
    keeps it. `draft_costs`: what drafters that cost time were measured to take, anew for every policy, by name.
    `experience`: what was measured of drafters, for those that no earlier run knows; anew for every policy.

    generation: counts the changes after which `of` may answer otherwise.
    """

    def __init__(
        self,
        table: CostTable | None = None,
        journal: Journal | None = None,
        own: Policy | None = None,
        store: Profiles | None = None,
        draft_costs: Callable[[], Mapping[str, DraftCosts]] = dict,
        experience: Callable[[], Acceptance] = Acceptance,
    ) -> None:
        self.generation = 0
        self._draft_costs = draft_costs
        self._experience = experience
        self._store = store
        self._table = table
        self._journal = journal
        self._own = own
        self._plain = FixedPolicy(max_nodes=0)
        self._unmeasured = {False: FixedPolicy(), True: FixedPolicy(WINDOW_NODES, WINDOW_LEAVES)}
        self._measured: dict[DraftChoice, MeasuredPolicy] = {}
        if store is not None and table is not None:  # so that no answer waits for the disk
            self._of_choice(DraftChoice.AUTO, table)

    @property
    def decides(self) -> bool:
        """False where nothing was measured: then `auto` has nothing to go by, and does not draft."""
        return self._table is not None or self._own is not None

    def of(self, choices: Collection[DraftChoice]) -> Policy:
        """For a batch whose requests with drafters chose these. A mixed batch is `auto`'s to decide."""
        if self._own is not None:
            return self._own
        if not choices:
            return self._plain
        if self._table is None:
            return self._unmeasured[any(choice.asks(LOOKAHEAD) for choice in choices)]
        return self._of_choice(DraftChoice.AUTO if len(choices) > 1 else next(iter(choices)), self._table)

    def reprice(self, table: CostTable) -> None:
        """Passes cost this now: other threads, or other settings."""
        self.generation += self._table is None
        self._table = table
        for policy in (*self._measured.values(), *([self._own] if self._own else [])):
            policy.reprice(table)

    def explain(self, choice: DraftChoice, context: int, width_class: tuple[int, ...] = ()) -> Explanation | None:
        """What the policy of `choice` thinks at so many tokens of context; None when nothing was measured."""
        if self._table is None or choice is DraftChoice.OFF:
            return None
        policy = self._measured.get(choice) or self._made(choice, self._table)
        return policy.explain(context, width_class)

    def close(self) -> None:
        """Keep what was learnt. No round may be running."""
        if self._store is not None:
            for choice, policy in self._measured.items():
                self._store.save(choice, policy.acceptance)

    def _of_choice(self, choice: DraftChoice, table: CostTable) -> MeasuredPolicy:
        policy = self._measured.get(choice)
        if policy is None:
            policy = self._measured[choice] = self._made(choice, table)
        return policy

    def _made(self, choice: DraftChoice, table: CostTable) -> MeasuredPolicy:
        journal = self._journal
        write = None if journal is None else (lambda entry: journal(choice, entry))
        policy = MeasuredPolicy(table, self._draft_costs(), leaves_for(choice), write)
        if self._store is not None:
            policy.acceptance.recall(self._store.load(choice))
        policy.acceptance.recall(self._experience())
        return policy
