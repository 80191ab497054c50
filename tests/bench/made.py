"""Answers as a measurement keeps them, and a tuning as it is stored, made from a few numbers."""

from __future__ import annotations

from edgespec.backend.settings import LlamaSettings
from edgespec.bench.matches import NO_MATCHES, Matches
from edgespec.bench.runs import Measured
from edgespec.spec.cost import CostTable
from edgespec.tune.tuning import Candidate, Choice, Tuned, Tuning


def made(
    prompt: str = "p",
    arm: str = "off",
    *,
    category: str = "c",
    repeat: int = 0,
    n_tokens: int = 10,
    decode_seconds: float = 1.0,
    read_seconds: float = 0.0,
    passes: int = 10,
    n_drafted: int = 0,
    n_accepted: int = 0,
    loops: bool = False,
    digest: str = "d",
    plain_seconds: float = 0.0,
    matches: Matches = NO_MATCHES,
) -> Measured:
    return Measured(
        prompt=prompt,
        category=category,
        arm=arm,
        repeat=repeat,
        place=0,
        prompt_tokens=5,
        n_tokens=n_tokens,
        first_token_seconds=0.1,
        decode_seconds=decode_seconds,
        total_seconds=read_seconds + decode_seconds,
        passes=passes,
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        loops=loops,
        finish="length",
        digest=digest,
        plain_seconds=plain_seconds,
        matches=matches,
    )


def tuning(table: CostTable) -> Tuning:
    """Of one thread; the same whatever the text's length."""
    settings = LlamaSettings(n_threads=1)
    choices = (Choice(512, Tuned(settings, table, table)),)
    candidates = (Candidate(settings, (table.seconds[0][0],)),)
    return Tuning(choices, table.contexts, candidates, settings, 1.7, (), False, "2026-01-02T03:04")
