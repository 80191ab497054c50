"""Why an answer was drafted as it was: of a model that llama.cpp runs, and that was never measured."""

from __future__ import annotations

from pathlib import Path

from apps.desk.why import Asked, doctor_of
from edgespec import Completion, DraftChoice, Engine, EngineOptions, GenerateOptions, RoundTally

OPTIONS = EngineOptions(ctx_size=512, threads=1)


def asked(engine: Engine, path: Path, options: GenerateOptions) -> tuple[Completion, tuple[str, ...]]:
    one, tally = Asked(engine, options), RoundTally()
    completion = engine.conversation().say("the river", options, on_round=tally.add).completion()
    return completion, one.sentences(completion, tally.tallied(), doctor_of(engine, path, OPTIONS))


def test_a_model_that_was_not_measured_says_so(toy_file: Path) -> None:
    with Engine.open(toy_file, OPTIONS) as engine:
        _, said = asked(engine, toy_file, GenerateOptions(max_tokens=8))
    assert said[0].startswith("Nothing was drafted: ")
    assert any("tune" in sentence for sentence in said)
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in said)


def test_what_is_switched_off_says_so(toy_file: Path) -> None:
    with Engine.open(toy_file, OPTIONS) as engine:
        _, said = asked(engine, toy_file, GenerateOptions(max_tokens=8, draft=DraftChoice.OFF))
    assert said[0] == "Drafting is switched off."


def test_what_was_drafted_is_counted(toy_file: Path) -> None:
    with Engine.open(toy_file, OPTIONS) as engine:
        completion, said = asked(engine, toy_file, GenerateOptions(max_tokens=64, draft=DraftChoice.LOOKUP))
    timings = completion.timings
    assert timings.draft_n > 0
    assert f"{timings.draft_n_accepted} of {timings.draft_n} guesses came true" in said[0]
