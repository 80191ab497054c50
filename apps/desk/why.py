"""Why an answer was drafted as it was, in the doctor's words. Runs where the answer was waited for, not in the window.

Loads no model; what it reads of the model's file and of the machine is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from edgespec import Completion, Engine, EngineOptions, GenerateOptions, Tallied
from edgespec.doctor.why import why
from edgespec.spec.policy import Explanation, Reason


@dataclass(frozen=True, slots=True)
class Over:
    """An answer that is over. explained: by the engine's policy, of this answer's rounds alone; None if unmeasured."""

    completion: Completion
    options: GenerateOptions
    tallied: Tallied
    explained: Explanation | None


# What kept an answer from being drafted more, one sentence each.
Causes = Callable[[Over], tuple[str, ...]]


class Asked:
    """Made before an answer is asked for, so that its rounds can be told from earlier ones."""

    def __init__(self, engine: Engine, options: GenerateOptions) -> None:
        self._engine = engine
        self._options = options
        self._before = self._rounds(engine.explain(1, options.draft))

    def sentences(self, completion: Completion, tallied: Tallied, causes: Causes) -> tuple[str, ...]:
        """What came of its drafts, then what `causes` finds beyond that."""
        length = completion.usage.prompt_tokens + completion.usage.completion_tokens
        explained = self._engine.explain(length, self._options.draft, completion.timings.width_class)
        if explained is not None:
            now = self._rounds(explained)
            since = {reason: n - self._before.get(reason, 0) for reason, n in now.items()}
            explained = replace(explained, rounds=since)
        said = why(self._options.draft, tallied, explained.rounds if explained else None)
        found = causes(Over(completion, self._options, tallied, explained))
        return (said, *found)

    @staticmethod
    def _rounds(explained: Explanation | None) -> dict[Reason, int]:
        return dict(explained.rounds) if explained is not None else {}


def doctor_of(engine: Engine, path: Path, options: EngineOptions) -> Causes:
    """Raises what reading the header and proving settings raise."""
    from edgespec.doctor.facts import Wishes
    from edgespec.doctor.findings import findings
    from edgespec.doctor.gather import at_rest, with_answer
    from edgespec.doctor.measured import OpenedFacts

    # What can be known of the machine before an answer does not change from one to the next.
    known = at_rest(engine.name, path, options, Wishes(), None)

    def causes(over: Over) -> tuple[str, ...]:
        asked, usage = over.options, over.completion.usage
        length = usage.prompt_tokens + usage.completion_tokens
        opened = OpenedFacts(engine.settings, tuple(engine.notices), engine.tuning, over.explained, engine.pace)
        wishes = Wishes(asked.draft.value, "the settings", (), False, asked.exact, asked.max_tokens, length)
        facts = with_answer(replace(known, wishes=wishes), over.completion, opened)
        said = why(asked.draft, over.tallied, over.explained.rounds if over.explained else None)
        found = [one for one in findings(facts) if one.message not in said]
        return tuple(f"{one.message[:1].upper()}{one.message[1:]} ({one.evidence}): {one.remedy}." for one in found)

    return causes
