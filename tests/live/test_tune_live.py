"""A real model is tuned, in a few seconds and with one thread."""

from __future__ import annotations

from pathlib import Path

from edgespec.backend.cores import CoreUse
from edgespec.backend.llama.native import library_fingerprint
from edgespec.backend.settings import KvType
from edgespec.events import Notice
from edgespec.records import Records
from edgespec.tune.store import Forced, stored_tuning
from edgespec.tune.tuner import Place, real_means, tune_by
from edgespec.tune.tuning import Tuning


def test_a_short_tuning(starter_model: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    forced = Forced(threads=1)
    records = Records(tmp_path / "tuning.json")
    said: list[Notice] = []
    quiet = replace(real_means(starter_model), watch_cores=lambda _: lambda: CoreUse(1.0, 2, 1.0, 0.0))
    place = Place(starter_model, library_fingerprint(), forced, records)
    tuning: Tuning | None = tune_by(quiet, place, lambda _: None, lambda: False, 20.0, said.append)
    assert tuning is not None
    assert said == []
    assert stored_tuning(starter_model, place.library, forced, records) == tuning
    for choice in tuning.choices:
        settings, table = choice.tuned.settings, choice.tuned.table
        assert (settings.n_threads, settings.batch_threads, settings.kv_type) == (1, 1, KvType.F16)
        assert table.widths[0] == 1
        assert all(row[-1] > row[0] for row in table.seconds if len(row) > 3)
    usual = next(one for one in tuning.candidates if one.settings == tuning.defaults)
    assert usual.plain_seconds
