from __future__ import annotations

import pytest

from edgespec.choice import DraftChoice
from edgespec.doctor.why import why
from edgespec.spec.policy import Reason
from edgespec.tally import Tallied

AUTO = DraftChoice.AUTO
NONE = Tallied(n_passes=9, n_tokens=9)
SOME = Tallied(n_passes=9, n_tokens=12, n_drafted=5, n_accepted=3, n_by_source=(("lookup", 2), ("suffix", 1)))


def test_who_drafted_and_what_held_it_back() -> None:
    rounds = {Reason.DRAFTED: 6, Reason.NO_MATCH: 2, Reason.LEDGER: 1}
    assert why(AUTO, SOME, rounds) == (
        "Lookup and suffix drafted, and 3 of 5 guesses came true; in 2 other passes the text did not repeat itself, "
        "so there was nothing to copy."
    )
    assert "in 1 other pass plain decoding" in why(AUTO, SOME, {Reason.LEDGER: 1})


def test_nothing_held_it_back() -> None:
    said = "Lookup and suffix drafted, and 3 of 5 guesses came true"
    assert why(AUTO, SOME, {Reason.DRAFTED: 6, Reason.NO_MATCH: 0}) == f"{said}."
    assert why(AUTO, SOME, None) == f"{said}; whether that pays was not measured here yet."


def test_guesses_that_were_all_wrong_are_nobodys() -> None:
    wrong = Tallied(n_passes=2, n_tokens=2, n_drafted=3)
    assert why(AUTO, wrong, {}) == "It was drafted, and none of 3 guesses came true."


def test_nothing_was_drafted() -> None:
    assert why(DraftChoice.OFF, NONE, None) == "Drafting is switched off."
    assert "edgespec tune" in why(AUTO, NONE, None)
    assert why(AUTO, NONE, {}) == "Nothing was drafted."
    said = why(AUTO, NONE, {Reason.NOT_WORTH_IT: 4, Reason.NO_MATCH: 3})
    assert said == "Nothing was drafted: no guess was likely enough to be worth a wider pass."


@pytest.mark.parametrize("reason", [one for one in Reason if one is not Reason.DRAFTED])
def test_every_reason_has_words(reason: Reason) -> None:
    said = why(AUTO, NONE, {reason: 1})
    assert said.startswith("Nothing was drafted: ")
    assert said.endswith(".")
