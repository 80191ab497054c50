"""What a pipelined drafter knows of one sequence: which draft its worker has reported for which outcome, and of when.

Contract: reports of other epochs than the present one change nothing. Knows no thread and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from edgespec.draft.messages import Behind, Drafted, Failed, Wanted
from edgespec.draft.worker import DraftWorker


@dataclass(slots=True)
class Request:
    """worker: the one that was told of the beginning, None if there was none. begun: the epoch of that beginning.

    n_behind: tokens to be read before a draft can be made. outcome: what the last commit was, as (n_accepted, token);
    None during a pass. drafts: by outcome. verified: the draft under way, None without a pass. is_hit: some of the next
    draft was there when the outcome came. wanted: what was asked for since the last pass. failure: not told yet.
    """

    worker: DraftWorker | None
    epoch: int
    prompt: tuple[int, ...]
    begun: int = field(init=False)
    n_behind: int = field(init=False)
    outcome: tuple[int, int] | None = field(init=False)
    drafts: dict[tuple[int, int], Drafted] = field(default_factory=dict)
    verified: tuple[int, ...] | None = None
    is_hit: bool = False
    wanted: Wanted | None = None
    failure: Exception | None = None

    def __post_init__(self) -> None:
        self.begun = self.epoch
        self.n_behind = max(0, len(self.prompt) - 1)
        self.outcome = (0, self.prompt[-1] if self.prompt else -1)

    @property
    def found(self) -> Drafted | None:
        """The draft behind the text as it stands."""
        return None if self.outcome is None else self.drafts.get(self.outcome)

    def has(self, n: int) -> bool:
        """Whether that has n tokens, or all it will ever have."""
        found = self.found
        return found is not None and (found.is_finished or len(found.tokens) >= n)

    def renew(self, epoch: int) -> None:
        """What was reported so far is stale."""
        self.epoch = epoch
        self.drafts.clear()
        self.outcome = None
        self.is_hit = False

    def conclude(self, path: list[int], tokens: tuple[int, ...]) -> int:
        """`tokens` came, by the nodes of `path`. Returns how much of the verified draft was accepted; -1: another."""
        n = len(path)
        is_first = path == list(range(n)) and n <= len(self.verified or ())
        self.outcome = (n if is_first else -1, tokens[-1])
        self.is_hit = self.verified is not None and self.found is not None and len(self.found.tokens) > 0
        self.verified = None
        return self.outcome[0]

    def take(self, report: Behind | Drafted | Failed) -> None:
        if report.epoch < self.begun:
            return  # of an earlier sequence of the same number
        if isinstance(report, Behind):
            self.n_behind = report.n
        elif isinstance(report, Failed):
            self.fail(report.error)
        elif report.epoch == self.epoch:
            self.drafts[report.n_accepted, report.token] = report

    def fail(self, error: Exception) -> None:
        self.failure = error
        self.drafts.clear()
