"""Which measured settings the next answer deserves, and whether changing to them loses nothing.

The best settings depend on how long the text gets: flash attention wins at one length and loses at another. Another
setting needs another cache, so it is chosen when an answer begins and nothing worth keeping is cached. Used by the
worker's thread only.
"""

from __future__ import annotations

from edgespec.backend.settings import LlamaSettings, loaded_alike
from edgespec.engine.choosing import tuned_as, tuned_settings
from edgespec.engine.job import Request
from edgespec.engine.levels import ladder
from edgespec.engine.paced import PacedTarget
from edgespec.engine.policies import Policies
from edgespec.engine.sockets import Reopenable
from edgespec.errors import EdgeSpecError
from edgespec.tune.tuning import Tuned, Tuning

# Answers mostly end by themselves long before `max_tokens`; what they would have been chosen for hardly ever comes.
USUAL_ANSWER = 256
# Reading so many tokens again costs less than an answer with the wrong settings.
CHEAP_TOKENS = 64
# And so many less than all further answers with settings that were never measured.
CHEAP_ONCE_TOKENS = 1024


class Arranger:
    """Keeps the target, its threads and the prices in step with what the tuning says. settings: as wanted, whatever
    threads the target has at the moment. tuned: what was measured with them; None if nothing was.
    """

    def __init__(
        self, target: Reopenable, policies: Policies, pacing: PacedTarget | None, tuning: Tuning | None
    ) -> None:
        self.settings = target.settings
        self.tuning = tuning
        self._target = target
        self._policies = policies
        self._pacing = pacing
        self._cheap_tokens = CHEAP_TOKENS
        self._may_change = True

    @property
    def tuned(self) -> Tuned | None:
        """What was measured with the settings as wanted."""
        return tuned_as(self.settings, self.tuning)

    def t1_seconds(self, context: int) -> float:
        """Of a token by plain decoding with all threads; 0 where nothing was measured."""
        tuned = self.tuned
        return tuned.table.at(context)[0] if tuned else 0.0

    def suit(self, request: Request, n_cached: int) -> bool:
        """Before a request that runs alone: True if the settings were changed, and the cache is empty now."""
        tuned = better(self.settings, self._usable, request, n_cached, self._cheap_tokens)
        if tuned is None:
            return False
        try:
            self._target.reopen(rearranged(self.settings, tuned))
        except EdgeSpecError:  # it is as before; what has failed once is not tried before every answer
            self._may_change = False
            if self._pacing is not None:
                self._pacing.reopened()
        else:
            self._settle(tuned)
        return True

    @property
    def _usable(self) -> Tuning | None:
        return self.tuning if self._may_change else None

    def learn(self, tuning: Tuning) -> None:
        """It was measured meanwhile. Where the model would have to be loaded anew, it counts from the next start on."""
        if not loaded_alike(self.settings, tuning.choices[0].tuned.settings):
            return
        self.tuning = tuning
        self._cheap_tokens = CHEAP_ONCE_TOKENS
        for choice in tuning.choices:
            if rearranged(self.settings, choice.tuned) == self.settings:
                self._settle(choice.tuned)

    def _settle(self, tuned: Tuned) -> None:
        self._cheap_tokens = CHEAP_TOKENS
        self.settings = settings = rearranged(self.settings, tuned)
        self._policies.reprice(tuned.table)
        if self._pacing is not None:
            self._pacing.retune(ladder(settings.n_threads, settings.n_threads_batch, tuned))


def length_of(request: Request) -> int:
    """Tokens of prompt and answer that settings are chosen for."""
    return len(request.prompt) + min(request.options.max_tokens, USUAL_ANSWER)


def better(
    settings: LlamaSettings,
    tuning: Tuning | None,
    request: Request,
    n_cached: int,
    cheap_tokens: int = CHEAP_TOKENS,
) -> Tuned | None:
    """What to change to before this request, which would run alone; None to stay.

    n_cached: tokens cached for anyone, which a change throws away, up to `cheap_tokens` of them. An exact answer always
    gets its own settings, or its text would depend on who asked before.
    """
    if tuning is None:
        return None
    wanted = tuning.for_length(length_of(request))
    if rearranged(settings, wanted) == settings or not loaded_alike(settings, wanted.settings):
        return None
    return wanted if request.options.exact or n_cached <= cheap_tokens else None


def rearranged(settings: LlamaSettings, tuned: Tuned) -> LlamaSettings:
    """`tuned`'s settings with the room that the target has."""
    return tuned_settings(settings, tuned)
