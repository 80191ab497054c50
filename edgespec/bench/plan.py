"""What is measured, and in which order: every prompt through every arm, A B B A, until there is enough.

Contract: pure; knows neither engine nor clock. The order depends on the prompts and on how many tokens they gave, so a
measurement that was broken off goes on as it would have gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.bench.prompts import Prompt, Prompts


@dataclass(frozen=True, slots=True)
class Amount:
    """min_tokens: what each arm shall have in each category, all repeats together; prompts beyond `per_category` are
    taken for it as far as there are any. 0 asks for no more.
    """

    per_category: int
    n_repeats: int
    min_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt, asked of every arm in this order. Its answers are compared with each other only."""

    prompt: Prompt
    repeat: int
    arms: tuple[str, ...]


# Tokens that an arm answered to a prompt in the first repeat.
TokensOf = Callable[[Prompt, str], int]


def turns(prompts: Prompts, arms: Seq[str], amount: Amount, tokens_of: TokensOf) -> Iterator[Turn]:
    """The whole measurement. `tokens_of` is asked only about turns that were yielded before.

    Categories take turns, so that a run broken off has some of each. From prompt to prompt of a category, and from
    repeat to repeat of a prompt, the order of the arms is reversed: what drifts over time then weighs on all alike.
    """
    chosen: list[tuple[Prompt, int]] = []
    for prompt, parity in _chosen(prompts, arms, amount, tokens_of):
        chosen.append((prompt, parity))
        yield _turn(prompt, 0, parity, arms)
    for repeat in range(1, amount.n_repeats):
        for prompt, parity in chosen:
            yield _turn(prompt, repeat, parity, arms)


def _turn(prompt: Prompt, repeat: int, parity: int, arms: Seq[str]) -> Turn:
    return Turn(prompt, repeat, tuple(arms if (repeat + parity) % 2 == 0 else reversed(arms)))


def _chosen(prompts: Prompts, arms: Seq[str], amount: Amount, tokens_of: TokensOf) -> Iterator[tuple[Prompt, int]]:
    """Prompts with the parity of their place; the first of every second category begins reversed."""
    unfinished = list(enumerate(prompts.values()))
    for place in range(max(map(len, prompts.values()), default=0)):
        unfinished = [
            (index, listed)
            for index, listed in unfinished
            if place < len(listed) and (place < amount.per_category or _lacks(listed[:place], arms, amount, tokens_of))
        ]
        for index, listed in unfinished:
            yield listed[place], (place + index) % 2


def _lacks(taken: Seq[Prompt], arms: Seq[str], amount: Amount, tokens_of: TokensOf) -> bool:
    """Whether these prompts will have given some arm too few tokens when all repeats are done."""
    fewest = min((sum(tokens_of(prompt, arm) for prompt in taken) for arm in arms), default=0)
    return fewest * amount.n_repeats < amount.min_tokens
