"""The accounts of the answers in flight. Contract: arithmetic on times handed in; knows no tables and no policy."""

from __future__ import annotations

from collections.abc import Iterable

from edgespec.spec.ledger import Account
from edgespec.spec.ports import SequenceId

# Answers that are broken off leave their accounts behind, which must not pile up.
_MOST_ACCOUNTS = 64


class Accounts:
    """One account per sequence, made when it is first asked for."""

    def __init__(self) -> None:
        self._accounts: dict[SequenceId, Account] = {}

    def of(self, sequence: SequenceId) -> Account:
        if sequence not in self._accounts:
            self._accounts[sequence] = Account()
            if len(self._accounts) > _MOST_ACCOUNTS:
                del self._accounts[next(iter(self._accounts))]
        return self._accounts[sequence]

    def headroom(self, sequences: Iterable[SequenceId], t1_seconds: float) -> float:
        """Seconds that these answers together may risk now."""
        return sum(self.of(sequence).headroom(t1_seconds) for sequence in sequences)

    def close(self, sequence: SequenceId) -> None:
        """The answer is over. Closing an unknown one is not an error."""
        self._accounts.pop(sequence, None)
