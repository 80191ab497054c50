"""A reporter that remembers."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgespec.library.reporter import Reporter


@dataclass
class Listener:
    lines: list[str] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def reporter(self) -> Reporter:
        return Reporter(self.lines.append, lambda done, total: self.steps.append((done, total)))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)
