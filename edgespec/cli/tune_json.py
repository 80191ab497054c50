"""What `edgespec tune --json` prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from edgespec.cli.pairs import pair_as_json

if TYPE_CHECKING:
    from edgespec.cli.tune import Found
    from edgespec.spec.cost import CostTable


def as_json(found: Found) -> dict[str, object]:
    """The keys are kept: programs read them."""
    tuning = found.tuning
    first = tuning.choices[0]
    return {
        "model": found.model,
        "settings": json.loads(first.tuned.settings.to_json()),
        "curve": _curve_json(first.tuned.table, tuning.contexts[0]),
        "choices": [
            {
                "up_to": one.up_to,
                "settings": json.loads(one.tuned.settings.to_json()),
                "curves": {str(context): _curve_json(one.tuned.table, context) for context in one.tuned.table.contexts},
                "alone": {str(context): _curve_json(one.tuned.alone, context) for context in one.tuned.alone.contexts},
            }
            for one in tuning.choices
        ],
        "contexts": tuning.contexts,
        "candidates": [
            {"settings": json.loads(one.settings.to_json()), "plain_seconds": one.plain_seconds, "fate": one.fate}
            for one in tuning.candidates
        ],
        "defaults": json.loads(tuning.defaults.to_json()),
        "plain_speedup_over_defaults": tuning.plain_speedup_over_defaults or None,
        "width_class": tuning.width_class,
        "partial": tuning.is_partial,
        "measured_on": tuning.measured_on,
        "stored": found.stored or None,
        "pairs": [pair_as_json(one) for one in found.pairs],
        "notices": [{"code": one.code, "message": one.message} for one in found.notices],
    }


def _curve_json(table: CostTable, context: int) -> dict[str, float]:
    row = table.seconds[table.contexts.index(context)]
    return {str(width): seconds for width, seconds in zip(table.widths, row, strict=True)}
