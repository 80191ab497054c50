"""Facts of a healthy machine, to be changed by tests, and a tuning as `edgespec tune` leaves it."""

from __future__ import annotations

from edgespec.backend.settings import LlamaSettings
from edgespec.doctor.facts import (
    AskedFacts,
    DrafterFacts,
    Facts,
    Gpu,
    LedgerFacts,
    MachineFacts,
    ModelFacts,
    Origin,
    SettingsFacts,
    Wishes,
)
from edgespec.doctor.gather import curve_at
from edgespec.spec.cost import CostTable
from edgespec.spec.policy import Reason
from edgespec.tune.tuning import Candidate, Choice, Tuned, Tuning

WIDTHS = (1, 2, 4, 8, 16)
FLAT = CostTable((256,), WIDTHS, ((0.010, 0.011, 0.012, 0.014, 0.020),))
# Every row costs as much as a pass of its own.
STEEP = CostTable((256,), WIDTHS, ((0.010, 0.020, 0.040, 0.080, 0.160),))
SETTINGS = LlamaSettings(n_ctx=4096, n_threads=2)

HEALTHY = Facts(
    model=ModelFacts("toy", "/m/toy.gguf", "llama", "Q4_1", 97_000_000, 135_000_000, 8192, 0, True),
    machine=MachineFacts("a machine", 4, 0.1, 8_000_000_000, "llama-cpp-python 0", Gpu.NONE),
    settings=SettingsFacts(SETTINGS, Origin.TUNED, (), "2026-01-02T03:04", 9, 1.7),
    wishes=Wishes(),
    drafters=(DrafterFacts("lookup", 500, 0.7),),
    curve=curve_at(FLAT, 256, ()),
    width_class=WIDTHS,
    load=1.02,
    ledger=LedgerFacts(-0.2, 0.5),
    asked=AskedFacts(40, 100, 60, 40, 90.0, ((Reason.DRAFTED, 30), (Reason.NO_MATCH, 20), (Reason.REFRESH, 2)), ()),
)


def tuning(table: CostTable, width_class: tuple[int, ...] = (2, 4, 8, 16), is_partial: bool = False) -> Tuning:
    settings = LlamaSettings(n_threads=1)
    return Tuning(
        (Choice(512, Tuned(settings, table, table)),),
        table.contexts,
        (Candidate(settings, (table.seconds[0][0],)), Candidate(settings, (), "died: SIGSEGV")),
        settings,
        1.7,
        width_class,
        is_partial,
        "2026-01-02T03:04",
    )
