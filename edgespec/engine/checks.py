"""What can be refused before a request is queued, so that it fails where it was made."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.errors import BadInput, ContextOverflow
from edgespec.spec.law import SamplingSettings


def check_prompt(prompt: Sequence[int], n_vocab: int, n_ctx: int, n_ctx_most: int) -> None:
    """n_ctx_most: what the model was made for, 0 where that is unknown.

    Raises BadInput for no tokens or foreign ones, ContextOverflow unless there is room for at least one more.
    """
    if not prompt:
        raise BadInput("the prompt", "it holds no token to go on from", "give it a text")
    strange = next((token for token in prompt if not 0 <= token < n_vocab), None)
    if strange is not None:
        raise BadInput(f"token {strange} in the prompt", _range(n_vocab), "name only tokens of this model")
    if len(prompt) >= n_ctx:
        raise ContextOverflow(
            f"a prompt of {len(prompt)} tokens",
            f"the context holds {n_ctx}",
            context_remedy(len(prompt) + 256, n_ctx_most),
        )


def context_remedy(n_wanted: int, n_ctx_most: int) -> str:
    """What to do for a text that needs a context of so many tokens."""
    if n_ctx_most and n_wanted > n_ctx_most:
        return f"shorten it: the model itself holds {n_ctx_most} at most"
    return f"shorten it, or give --ctx-size {n_wanted} if memory allows"


def check_sampling(sampling: SamplingSettings, n_vocab: int) -> None:
    """Raises BadInput for settings that name a token outside the vocabulary."""
    highest = max((*(token for token, _ in sampling.logit_bias), *sampling.banned), default=0)
    if highest >= n_vocab:
        raise BadInput(f"token {highest} in logit_bias or banned", _range(n_vocab), "name only tokens of this model")


def _range(n_vocab: int) -> str:
    return f"the vocabulary ends at {n_vocab - 1}"
