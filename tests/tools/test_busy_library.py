from __future__ import annotations

import pytest

from tools.busy_library import DefaultsFigures, decoded_rate, defaults_table
from tools.peer import Answer


def test_the_first_token_is_the_prompt_s() -> None:
    assert decoded_rate(Answer((1,) * 16, False, 9, 1, 30.0, 40.0)) == pytest.approx(0.5)


def test_a_row_says_what_is_left() -> None:
    found = [DefaultsFigures(1, 2, False, 0.5, 0.007), DefaultsFigures(2, 1, True, 9.0, 0.5)]
    first, second = defaults_table(found).splitlines()
    assert first.startswith("library, 2 threads, 1 ")
    assert first.split()[-2:] == ["0.50", "0.007"]
    assert second.startswith("library, 1 thread (default), 2 ")
    assert defaults_table([]) == ""
