"""Which measured settings the next answer deserves, and whether changing to them loses nothing.

The best settings depend on how long the text gets: flash attention wins at one length and loses at another. Another
setting needs another cache, so it is chosen when an answer begins and nothing worth keeping is cached. Decides only;
knows no target.
"""

from __future__ import annotations

from dataclasses import replace

from edgespec.backend.settings import LlamaSettings
from edgespec.engine.job import Request
from edgespec.tune.tuning import Tuned, Tuning

# Answers mostly end by themselves long before `max_tokens`; what they would have been chosen for hardly ever comes.
USUAL_ANSWER = 256
# Reading so many tokens again costs less than an answer with the wrong settings.
CHEAP_TOKENS = 64


def length_of(request: Request) -> int:
    """Tokens of prompt and answer that settings are chosen for."""
    return len(request.prompt) + min(request.options.max_tokens, USUAL_ANSWER)


def better(settings: LlamaSettings, tuning: Tuning | None, request: Request, n_cached: int) -> Tuned | None:
    """What to change to before this request, which would run alone; None to stay.

    n_cached: tokens cached for anyone, which a change throws away. An exact answer always gets its own settings, or
    its text would depend on who asked before.
    """
    if tuning is None:
        return None
    wanted = tuning.for_length(length_of(request))
    if rearranged(settings, wanted) == settings or not can_change(settings, wanted):
        return None
    return wanted if request.options.exact or n_cached <= CHEAP_TOKENS else None


def rearranged(settings: LlamaSettings, tuned: Tuned) -> LlamaSettings:
    """`tuned`'s settings with the room that the target has."""
    return replace(tuned.settings, n_ctx=settings.n_ctx, swa_full=settings.swa_full)


def can_change(settings: LlamaSettings, tuned: Tuned) -> bool:
    """Whether the loaded model can be run so: how its weights are kept is decided when they are loaded."""
    loaded = (settings.extra_buffers, settings.n_gpu_layers)
    return loaded == (tuned.settings.extra_buffers, tuned.settings.n_gpu_layers)
