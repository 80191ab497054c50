"""Facts of a healthy machine, to be changed by tests, and a tuning as `edgespec tune` leaves it."""

from __future__ import annotations

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.doctor.facts import (
    AskedFacts,
    ClassFacts,
    DrafterFacts,
    Facts,
    Gpu,
    LedgerFacts,
    MachineFacts,
    ModelFacts,
    Origin,
    SettingsFacts,
    Speedup,
    Wishes,
)
from edgespec.doctor.measured import curve_at
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
    settings=SettingsFacts(SETTINGS, Origin.TUNED, (), "2026-01-02T03:04", 9, Speedup(1.7, 256)),
    wishes=Wishes(),
    drafters=(DrafterFacts("lookup", 500, 0.7),),
    curve=curve_at(FLAT, 256, ()),
    width_class=ClassFacts(WIDTHS, is_cheapest=True, pair_ratio=1.1),
    load=1.02,
    ledger=LedgerFacts(-0.2, 0.5),
    asked=AskedFacts(40, 100, 60, 40, 90.0, ((Reason.DRAFTED, 30), (Reason.NO_MATCH, 20), (Reason.REFRESH, 2)), ()),
)


# What is best for short texts and for long ones, with one thread.
SHORT, LONG = LlamaSettings(n_threads=1, flash_attention=FlashAttention.ON), LlamaSettings(n_threads=1)
BY_LENGTH = (
    CostTable((128, 1024), WIDTHS, ((0.010, 0.019, 0.030, 0.050, 0.090), (0.014, 0.028, 0.050, 0.090, 0.160))),
    CostTable((128, 1024), WIDTHS, ((0.011, 0.016, 0.020, 0.030, 0.050), (0.012, 0.017, 0.021, 0.032, 0.060))),
)


def tuning_by_length() -> Tuning:
    """Flash attention wins up to 362 tokens, and the library's defaults are slow with long texts."""
    short, long = BY_LENGTH
    defaults = LlamaSettings(n_threads=2)
    return Tuning(
        (Choice(362, Tuned(SHORT, short, short)), Choice(1024, Tuned(LONG, long, long))),
        (128, 1024),
        (Candidate(SHORT, (0.010, 0.014)), Candidate(LONG, (0.011, 0.012)), Candidate(defaults, (0.015, 0.024))),
        defaults,
        1.5,
        (1,),
        False,
        "2026-01-02T03:04",
    )


def tuning(table: CostTable, width_class: tuple[int, ...] = (2, 4, 8, 16), is_partial: bool = False) -> Tuning:
    """Half as fast again as the library's defaults; another setting died."""
    settings, defaults = LlamaSettings(n_threads=1), LlamaSettings(n_threads=2)
    plain = table.seconds[0][0]
    died = LlamaSettings(n_threads=1, flash_attention=FlashAttention.ON)
    return Tuning(
        (Choice(512, Tuned(settings, table, table)),),
        table.contexts,
        (Candidate(settings, (plain,)), Candidate(defaults, (1.5 * plain,)), Candidate(died, (), "died: SIGSEGV")),
        defaults,
        1.5,
        width_class,
        is_partial,
        "2026-01-02T03:04",
    )
