"""What the measured times decide: who is worth measuring further, which settings are used, which widths are exact.

Pure functions of numbers; ties within the noise of a measurement go to what makes drafting cheapest. Measures nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from edgespec.backend.settings import FlashAttention, LlamaSettings, loading_of
from edgespec.spec.cost import CostTable
from edgespec.spec.predict import best_size, goodput
from edgespec.tune.tuning import Choice, Tuned

Classes = tuple[tuple[int, ...], ...]

# Medians of a few passes repeat to about this much, so plain passes this close count as equally fast, and the setting
# with the better drafted rounds is taken.
SAME_SPEED = 1.02
# A setting this much slower at one row is not measured further. Flash attention alone changes less than this at a
# short context, and it may win at a long one.
CLEARLY_SLOWER = 1.4
# After the coarse round a setting must be this close to the fastest at one of the contexts: its three or four passes
# are within some percent of what the full curve will say.
WORTH_THE_CURVE = 1.08
# Chance that a drafted token is right if those before it are: an ordinary text with an ordinary drafter. Also what is
# assumed of a second model until it was measured, and what a policy believes of a drafter that it has never seen: so
# nothing is predicted to pay that a policy without experience would not try.
PRIOR_ACCEPTANCE = 0.6
# Part of an exact answer's tokens that come from rounds with drafts, before anything is known.
DRAFTED_SHARE = 0.5
# Reading in shorter chunks is taken if it costs no more than this: cancelling and other answers wait for a chunk.
SAME_READING = 1.05


def clearly_slower(plain: Mapping[LlamaSettings, float], allowed: Collection[LlamaSettings]) -> set[LlamaSettings]:
    """Settings whose pass of one row rules them out beside the fastest of those that may be chosen."""
    fastest = min((seconds for one, seconds in plain.items() if one in allowed), default=float("inf"))
    return {one for one, seconds in plain.items() if seconds > CLEARLY_SLOWER * fastest}


def finalists(plain: Mapping[LlamaSettings, Seq[float]]) -> list[LlamaSettings]:
    """Settings close to the fastest at one context or more. plain: seconds of one row by context.

    The best compromise over the contexts comes first, so that it is the one to keep if there is time for one only; then
    by how near they come to the fastest somewhere.
    """
    n_contexts = max(map(len, plain.values()), default=0)
    best = [min(row[i] for row in plain.values() if len(row) > i) for i in range(n_contexts)]
    ratios = {one: [a / b for a, b in zip(row, best, strict=False)] for one, row in plain.items() if row}
    near = sorted((one for one in ratios if min(ratios[one]) <= WORTH_THE_CURVE), key=lambda one: min(ratios[one]))
    compromise = min(
        (one for one in near if len(ratios[one]) == n_contexts), key=lambda one: sum(ratios[one]), default=None
    )
    return near if compromise is None else [compromise, *(one for one in near if one != compromise)]


def without_echoes(ones: Seq[LlamaSettings]) -> list[LlamaSettings]:
    """Without flash attention "auto" on the CPU where "on" or "off", of which it is one, are there too."""
    stated = {_unstated(one) for one in ones if one.flash_attention is not FlashAttention.AUTO}
    return [
        one
        for one in ones
        if one.flash_attention is not FlashAttention.AUTO or one.n_gpu_layers != 0 or one not in stated
    ]


def _unstated(one: LlamaSettings) -> LlamaSettings:
    return replace(one, flash_attention=FlashAttention.AUTO)


def drafted_rate(steps: Seq[float], acceptance: float = PRIOR_ACCEPTANCE) -> float:
    """Best expected tokens per second. steps: seconds of a pass by rows, index 0 unused."""
    survivals: list[float] = [acceptance**depth for depth in range(1, len(steps) - 1)]
    size = best_size(survivals, steps[1:])
    return goodput(survivals[:size], steps[1 + size])


def choose(tables: Mapping[LlamaSettings, CostTable], contexts: Seq[int]) -> list[LlamaSettings]:
    """The best settings for each context, () if no table covers them all.

    What needs the model loaded anew (extra buffers, layers on the GPU, which GPU) is one choice for all contexts.
    """
    complete = {one: table for one, table in tables.items() if len(table.contexts) == len(contexts)}
    groups: dict[tuple[bool, int, int], list[LlamaSettings]] = {}
    for settings in complete:
        groups.setdefault(loading_of(settings), []).append(settings)
    if not groups:
        return []
    slowness = {key: _slowness(complete, group) for key, group in groups.items()}
    close = [key for key in groups if slowness[key] <= SAME_SPEED * min(slowness.values())]
    picked = [_choose_loaded(complete, groups[key], contexts) for key in close]
    return max(picked, key=lambda chosen: _total_rate(complete, chosen, contexts))


def _slowness(tables: Mapping[LlamaSettings, CostTable], group: Seq[LlamaSettings]) -> float:
    """Sum over the contexts of the group's fastest plain pass relative to the fastest of all."""
    n_contexts = len(_plain(tables[group[0]]))
    best = [min(_plain(table)[i] for table in tables.values()) for i in range(n_contexts)]
    own = [min(_plain(tables[one])[i] for one in group) for i in range(n_contexts)]
    return sum(mine / fastest for mine, fastest in zip(own, best, strict=True))


def _choose_loaded(
    tables: Mapping[LlamaSettings, CostTable], group: Seq[LlamaSettings], contexts: Seq[int]
) -> list[LlamaSettings]:
    """One setting for all contexts if one is among the fastest everywhere: changing over costs reading anew."""
    fastest = [min(_plain(tables[one])[i] for one in group) for i in range(len(contexts))]
    fast = [[one for one in group if _plain(tables[one])[i] <= SAME_SPEED * fastest[i]] for i in range(len(contexts))]
    everywhere = [one for one in fast[0] if all(one in others for others in fast)]
    if everywhere:
        best = max(everywhere, key=lambda one: _total_rate(tables, [one] * len(contexts), contexts))
        return [best] * len(contexts)
    return [max(fast[i], key=lambda one: drafted_rate(tables[one].steps(contexts[i]))) for i in range(len(contexts))]


def _total_rate(tables: Mapping[LlamaSettings, CostTable], chosen: Seq[LlamaSettings], contexts: Seq[int]) -> float:
    """Sum over the contexts of the drafted rate times the fastest plain pass, so that each context weighs the same."""
    best = [min(_plain(table)[i] for table in tables.values()) for i in range(len(contexts))]
    rates = [drafted_rate(tables[one].steps(context)) for one, context in zip(chosen, contexts, strict=True)]
    return sum(rate * seconds for rate, seconds in zip(rates, best, strict=True))


def _plain(table: CostTable) -> list[float]:
    return [row[0] for row in table.seconds]


def as_choices(tuned: Seq[Tuned], contexts: Seq[int]) -> tuple[Choice, ...]:
    """One choice for each run of equal settings; two meet at the geometric middle of their contexts."""
    choices: list[Choice] = []
    for i, one in enumerate(tuned):
        is_last = i + 1 == len(tuned)
        if is_last or tuned[i + 1].settings != one.settings:
            up_to = contexts[i] if is_last else round((contexts[i] * contexts[i + 1]) ** 0.5)
            choices.append(Choice(up_to, one))
    return tuple(choices)


def refined(probed: Iterable[Classes]) -> Classes:
    """Classes of widths that are equal under every one of these probes; largest first. A width outside some is in
    none.
    """
    names: dict[int, tuple[int, ...]] = {}
    all_probed = list(probed)
    for classes in all_probed:
        for number, widths in enumerate(classes):
            for width in widths:
                names[width] = (*names.get(width, ()), number)
    groups: dict[tuple[int, ...], list[int]] = {}
    for width, name in sorted(names.items()):
        if len(name) == len(all_probed):
            groups.setdefault(name, []).append(width)
    return tuple(sorted((tuple(group) for group in groups.values()), key=lambda group: (-len(group), group)))


def cheapest_class(classes: Classes, curves: Seq[Seq[float]]) -> tuple[int, ...]:
    """The class in which an exact answer takes least time per token, plain and drafted rounds padded to its widths.

    curves: for each choice the seconds of a pass by rows, index 0 unused. () without classes.
    """
    return min(classes, key=lambda widths: sum(_token_seconds(widths, steps) for steps in curves), default=())


def _token_seconds(widths: Seq[int], steps: Seq[float]) -> float:
    usable = [width for width in sorted(widths) if width < len(steps)]
    if not usable:
        return float("inf")
    padded = [0.0] + [steps[next(w for w in usable if w >= rows)] for rows in range(1, usable[-1] + 1)]
    relative = [seconds / steps[1] for seconds in padded]
    return (1.0 - DRAFTED_SHARE) * relative[1] + DRAFTED_SHARE / drafted_rate(relative)


def best_chunk(read_seconds: Mapping[int, float]) -> int:
    """The shortest chunk that reads about as fast as the fastest. read_seconds: of the same text, by chunk."""
    fastest = min(read_seconds.values())
    return min(chunk for chunk, seconds in read_seconds.items() if seconds <= SAME_READING * fastest)
