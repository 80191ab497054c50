"""Four requests at once against the same four one after another, in turns A B B A. Knows no screen."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

from tools.fuzz_requests import TEXT
from tools.soak_server import Served

N_TOGETHER = 4
PROMPTS = (
    "The history of the bicycle begins",
    "A recipe for bread: first take",
    "Dear Sir or Madam, I am writing to",
    "def fibonacci(n):",
)


@dataclass(frozen=True, slots=True)
class Arm:
    """The four requests once. together: all at the same time."""

    together: bool
    n_tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return self.n_tokens / self.seconds if self.seconds > 0 else 0.0


def measure(running: Served, n_repeats: int, max_tokens: int) -> list[Arm]:
    """Two arms of each kind a repeat. Raises httpx's errors."""
    arms: list[Arm] = []
    with running.client() as client:
        _answer(client, running, "warm", max_tokens)
        for _ in range(n_repeats):
            for together in (True, False, False, True):
                # Every arm has prompts of its own: what the cache knows already would make the later ones faster.
                prompts = [f"{len(arms)}. {prompt}" for prompt in PROMPTS]
                arms.append(_arm(client, running, prompts, together, max_tokens))
    return arms


def _arm(client: httpx.Client, running: Served, prompts: list[str], together: bool, max_tokens: int) -> Arm:
    started = time.perf_counter()
    with ThreadPoolExecutor(N_TOGETHER if together else 1) as pool:
        tokens = list(pool.map(lambda prompt: _answer(client, running, prompt, max_tokens), prompts))
    return Arm(together, sum(tokens), time.perf_counter() - started)


def _answer(client: httpx.Client, running: Served, prompt: str, max_tokens: int) -> int:
    """Tokens of an answer that does not end by itself."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "logit_bias": never_ending(running)}
    response = client.post(TEXT, json=body)
    response.raise_for_status()
    n_tokens: int = response.json()["usage"]["completion_tokens"]
    return n_tokens


def never_ending(running: Served) -> dict[str, float]:
    """A logit bias under which no end token is said."""
    return {str(token): -1000.0 for token in running.engine.vocab.end_tokens}


def ratio(arms: list[Arm]) -> float:
    """Tokens per second together over those one after another, of all arms."""
    together, apart = ([arm for arm in arms if arm.together is kind] for kind in (True, False))
    return _rate(together) / _rate(apart)


def _rate(arms: list[Arm]) -> float:
    return sum(arm.n_tokens for arm in arms) / sum(arm.seconds for arm in arms)


def lines(arms: list[Arm]) -> list[str]:
    rows = [
        f"{'together' if arm.together else 'in turn':<9} {arm.n_tokens:>5} tokens {arm.seconds:>7.2f} s "
        f"{arm.tokens_per_second:>7.1f} tok/s"
        for arm in arms
    ]
    return [*rows, f"together {ratio(arms):.2f} times the tokens per second of one after another"]
