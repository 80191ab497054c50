"""A policy that drafts a fixed number of tokens and keeps what it is told of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from edgespec.events import RoundReport
from edgespec.spec.policy import FixedPolicy, Offer
from edgespec.tally import RoundTally, Tallied


@dataclass(frozen=True, slots=True)
class Watched(FixedPolicy):
    max_nodes: int = 6
    reports: list[RoundReport] = field(default_factory=list)

    def record(self, offers: Sequence[Offer], reports: Sequence[RoundReport], draft_seconds: float) -> None:
        self.reports.extend(reports)

    def tallied(self) -> Tallied:
        tally = RoundTally()
        for report in self.reports:
            tally.add(report)
        return tally.tallied()
