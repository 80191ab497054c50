"""Answers as a measurement keeps them, made from a few numbers."""

from __future__ import annotations

from edgespec.bench.runs import Measured


def made(
    prompt: str = "p",
    arm: str = "off",
    *,
    category: str = "c",
    repeat: int = 0,
    n_tokens: int = 10,
    decode_seconds: float = 1.0,
    passes: int = 10,
    n_drafted: int = 0,
    n_accepted: int = 0,
    loops: bool = False,
    digest: str = "d",
    plain_seconds: float = 0.0,
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
        passes=passes,
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        loops=loops,
        finish="length",
        digest=digest,
        plain_seconds=plain_seconds,
    )
