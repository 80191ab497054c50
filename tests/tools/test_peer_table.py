"""The table and the data of a report."""

from __future__ import annotations

import io
import json

from rich.console import Console

from tools.peer_figures import PeerFigures, Spread, View
from tools.peer_table import cells, table, to_data

FULL = PeerFigures(
    "llama",
    4,
    400,
    100.04,
    80.0,
    Spread(0.5, 0.4, 0.6),
    Spread(0.75, None, None),
    Spread(2.0, 1.5, 2.5),
    Spread(1.25, 1.0, 1.5),
    {"qa": 1.0, "rag": 0.5},
    0.5,
)
EMPTY = PeerFigures("dead", 0, 0, None, None, None, None, None, None, {}, None)
SECTIONS = [(View("all prompts", frozenset("ab")), [FULL, EMPTY])]


def test_cells() -> None:
    wanted = ["llama", "4", "400", "100.0", "80.0", "0.50 (0.40-0.60)", "0.75", "0.75", "2.00", "1.25", "50%"]
    assert cells(FULL) == wanted
    assert cells(EMPTY) == ["dead", "0", "0"] + ["-"] * 8


def test_the_table_has_a_section_for_each_view_and_a_line_for_each_peer() -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(table([*SECTIONS, (View("long", frozenset("a")), [FULL])], "plain", "auto"))
    text = out.getvalue()
    assert "all prompts: 2" in text
    assert "long: 1" in text
    assert sum("0.50 (0.40-0.60)" in line for line in text.splitlines()) == 2
    assert "auto / it" in text


def test_the_data_is_json_with_every_figure() -> None:
    data = json.loads(json.dumps(to_data(SECTIONS)))
    assert data["all prompts"]["prompts"] == 2
    peer = data["all prompts"]["peers"]["llama"]
    assert peer["decode"] == {"ratio": 0.5, "low": 0.4, "high": 0.6}
    assert (peer["total"]["low"], peer["category_mean"], peer["same_answers"]) == (None, 0.75, 0.5)
    assert data["all prompts"]["peers"]["dead"]["auto_total"] is None
