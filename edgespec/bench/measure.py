"""Runs a plan: asks every arm, keeps what came, says how far it is. Broken off at any time, it loses one turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.bench.arms import Answered, Arm
from edgespec.bench.journal import Journal
from edgespec.bench.loops import is_looping
from edgespec.bench.plan import Amount, Turn, turns
from edgespec.bench.prompts import Prompt, Prompts
from edgespec.bench.runs import Measured, RunFolder
from edgespec.events import Notice


@dataclass(frozen=True, slots=True)
class Progress:
    """Turns, of which `n_in_all` may still grow until every prompt has been asked once. n_measured: in this run."""

    n_done: int
    n_in_all: int
    n_measured: int


# Tokens of a prompt as it is put to a model.
Encode = Callable[[Prompt], list[int]]


def measure(
    prompts: Prompts,
    arms: Seq[Arm],
    amount: Amount,
    folder: RunFolder,
    encode: Encode,
    on_turn: Callable[[Progress], None],
    notify: Callable[[Notice], None],
    journal: Journal | None = None,
) -> None:
    """Everything that the folder lacks. What answers have to say is passed on between turns.

    Raises the arms' EdgeSpecErrors and KeyboardInterrupt; the turns that are whole are kept then.
    """
    by_name = {arm.name: arm for arm in arms}
    least = amount.n_repeats * sum(min(len(listed), amount.per_category) for listed in prompts.values())
    n_measured = n_first = 0
    for n_done, turn in enumerate(turns(prompts, list(by_name), amount, folder.runs.tokens_of), start=1):
        if not folder.runs.has(turn):
            tokens = encode(turn.prompt)
            for arm in arms if n_measured == 0 else ():
                arm.warm_up(tokens)
            for arm in arms:
                arm.settle(tokens)
            answers = _ask(turn, by_name, tokens)
            folder.add([one for one, _ in answers])
            for notice in [notice for _, notices in answers for notice in notices]:
                notify(notice)
            n_measured += 1
            if journal is not None:
                journal.flush(folder.path)
        n_first += turn.repeat == 0
        on_turn(Progress(n_done, max(least, n_first * amount.n_repeats), n_measured))


def _ask(turn: Turn, arms: dict[str, Arm], tokens: list[int]) -> list[tuple[Measured, tuple[Notice, ...]]]:
    answers = [(name, arms[name].answer(tokens)) for name in turn.arms]
    return [(measured(turn, name, i, len(tokens), one), one.notices) for i, (name, one) in enumerate(answers)]


def measured(turn: Turn, arm: str, place: int, prompt_tokens: int, answered: Answered) -> Measured:
    digest = hashlib.sha256(repr(list(answered.token_ids)).encode()).hexdigest()[:16]
    return Measured(
        prompt=turn.prompt.id,
        category=turn.prompt.category,
        arm=arm,
        repeat=turn.repeat,
        place=place,
        prompt_tokens=prompt_tokens,
        n_tokens=len(answered.token_ids),
        first_token_seconds=answered.first_token_seconds,
        decode_seconds=answered.decode_seconds,
        total_seconds=answered.total_seconds,
        passes=answered.passes,
        n_drafted=answered.n_drafted,
        n_accepted=answered.n_accepted,
        loops=is_looping(answered.token_ids),
        finish=answered.finish,
        digest=digest,
        plain_seconds=answered.plain_seconds,
        matches=answered.matches,
    )


def left_out(prompts: Prompts, encode: Encode, room: int) -> tuple[Prompts, int]:
    """The prompts of at most `room` tokens, and how many are longer. A category without any is gone."""
    fitting = {category: tuple(p for p in listed if len(encode(p)) <= room) for category, listed in prompts.items()}
    n_longer = sum(map(len, prompts.values())) - sum(map(len, fitting.values()))
    return {category: listed for category, listed in fitting.items() if listed}, n_longer
