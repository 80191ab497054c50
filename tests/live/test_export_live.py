"""The starter model exported and compared with itself, as `edgespec export --verify` does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.exporting.job import Layers, Order, export
from edgespec.exporting.prompts import prompt_sets

pytestmark = pytest.mark.live

# Of llama.cpp's own rows in passes of other widths about one in forty has another first choice.
LEAST_AGREEMENT = 0.94
MOST_TV = 0.035


def test_the_step_model_does_what_the_model_does(starter_model: Path, tmp_path: Path) -> None:
    order = Order(starter_model, tmp_path / "starter.step", Layers.ALL, None, 400, prompt_sets())
    found = export(order, lambda _: None, lambda _stage, _done: None)
    assert found.agreement is not None
    assert found.agreement.n_positions == 400
    assert found.agreement.top1 >= LEAST_AGREEMENT
    assert found.agreement.mean_tv <= MOST_TV
