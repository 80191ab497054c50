"""What is known of a model on a machine, as far as it decides whether and how much is drafted. Plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgespec.backend.settings import LlamaSettings
from edgespec.engine.pace import PaceStatus
from edgespec.events import Notice
from edgespec.spec.policy import Reason
from edgespec.spec.predict import BreakEven, tokens_per_pass

# Steps of a drafter after which what was observed says more than what is assumed.
ENOUGH_STEPS = 32


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """can_rollback: False for a running state, out of which no single token can be taken again."""

    name: str
    path: str
    architecture: str
    quantisation: str
    n_bytes: int
    n_parameters: int
    context_length: int
    sliding_window: int
    can_rollback: bool


class Gpu(str, Enum):
    """unused: there is one, and the settings leave it alone. no-device: the library can, and finds none."""

    NONE = "none"
    USED = "used"
    UNUSED = "unused"
    NO_DEVICE = "no-device"


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """others: cores' worth of time that other programs take, None where the system does not say."""

    description: str
    n_cores: int
    others: float | None
    free_bytes: int
    library: str
    gpu: Gpu


class Origin(str, Enum):
    """Where the engine's settings come from."""

    TUNED = "tuned"
    FORCED = "forced"
    PROBED = "probed"


@dataclass(frozen=True, slots=True)
class Speedup:
    """Plain passes of the settings against the library's defaults, both measured at so many tokens of context."""

    factor: float
    context: int


@dataclass(frozen=True, slots=True)
class ChoiceFacts:
    """Settings for texts of up to so many tokens, prompt and answer; None: for all longer ones."""

    up_to: int | None
    settings: LlamaSettings


@dataclass(frozen=True, slots=True)
class SettingsFacts:
    """settings: those for a text of the context that was asked about. choices: what the engine chooses among by length.

    measured_on, n_tried: of the tuning, "" and 0 without one; speedup: None if not both sides were measured. forced:
    the flags that leave no choice. died: why candidates of the tuning could not be used; twin_died: why these settings
    could not be used with extra buffers, "" if they could or were not tried. cut_short: the tuning's time cap left
    something untried. notices: what was given up on the way to these settings.
    """

    settings: LlamaSettings
    origin: Origin
    forced: tuple[str, ...] = ()
    measured_on: str = ""
    n_tried: int = 0
    speedup: Speedup | None = None
    died: tuple[str, ...] = ()
    twin_died: str = ""
    cut_short: bool = False
    notices: tuple[Notice, ...] = ()
    choices: tuple[ChoiceFacts, ...] = ()

    @property
    def measured_at(self) -> str:
        """Day and minute, for people."""
        return self.measured_on[:16].replace("T", " ")

    @property
    def windowed(self) -> bool:
        """Layers with a sliding window are cached in a ring that holds little more than the window."""
        return not self.settings.swa_full


@dataclass(frozen=True, slots=True)
class Curve:
    """Measured seconds of a pass by rows, at so many tokens of context; for an exact answer only its class of widths,
    where that is known.

    break_even: for each width but the first, which is what a plain round takes.
    """

    context: int
    widths: tuple[int, ...]
    seconds: tuple[float, ...]
    break_even: tuple[BreakEven, ...]
    is_partial: bool

    @property
    def easiest(self) -> BreakEven | None:
        """The width at which the least acceptance is enough; None when only the plain pass was measured."""
        return min(self.break_even, key=lambda one: (one.acceptance, one.rows), default=None)


@dataclass(frozen=True, slots=True)
class DrafterFacts:
    """acceptance: of a step, observed if `n_steps` are enough to tell, else assumed."""

    name: str
    n_steps: int
    acceptance: float

    @property
    def is_observed(self) -> bool:
        return self.n_steps >= ENOUGH_STEPS


@dataclass(frozen=True, slots=True)
class Expected:
    """What rounds with a guess give at the best width; 1 row and a speed-up of 1 where plain decoding is faster."""

    rows: int
    tokens_per_pass: float
    speedup: float


def expected(drafter: DrafterFacts, curve: Curve) -> Expected:
    """A chain of constant acceptance, drafted in no time: 1 + a + ... + a^N tokens for the pass of 1 + N rows."""
    best = Expected(1, 1.0, 1.0)
    for one in curve.break_even:
        tokens = tokens_per_pass(drafter.acceptance, one.rows - 1)
        if tokens / one.cost_ratio > best.speedup:
            best = Expected(one.rows, tokens, tokens / one.cost_ratio)
    return best


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller asked for. draft: "auto", "off" or a drafter's name; draft_from: where that was said.

    off_for: commands for which drafting is off by configuration or environment, each with where that is said.
    """

    draft: str = "auto"
    draft_from: str = ""
    off_for: tuple[str, ...] = ()
    has_prediction: bool = False
    exact: bool = False
    max_tokens: int = 1024
    context: int = 256


@dataclass(frozen=True, slots=True)
class AskedFacts:
    """One answer made for the diagnosis. rounds: how often each reason decided, most frequent first; () when the
    engine's policy does not tell. settings: what it ran with, None if unknown.
    """

    n_prompt: int
    n_output: int
    n_drafted: int
    n_accepted: int
    tokens_per_second: float
    rounds: tuple[tuple[Reason, int], ...]
    notices: tuple[Notice, ...]
    settings: LlamaSettings | None = None

    @property
    def n_rounds(self) -> int:
        return sum(n for _, n in self.rounds)

    def n(self, reason: Reason) -> int:
        return dict(self.rounds).get(reason, 0)


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """Seconds that drafting has lost so far against plain decoding, and that it may still risk."""

    lost_seconds: float
    headroom_seconds: float


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """The widths that exact answers keep to. is_cheapest: tuning chose them, as the class that costs least; else they
    are the class with the most widths. pair_ratio: a pass of two rows over one of one row, None if not measured.
    """

    widths: tuple[int, ...]
    is_cheapest: bool
    pair_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class SecondFacts:
    """The second model. placement: where it drafts ("plain": nowhere), "" while it was not measured here. speedup: what
    that is expected to give over plain decoding, at `acceptance`. reasons: why each other way was not taken. home: in
    which process it runs, in words.
    """

    name: str
    placement: str = ""
    speedup: float = 1.0
    acceptance: float = 0.0
    reasons: tuple[str, ...] = ()
    home: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """width_class: of exact answers, None where it is not known. curve: None without a tuning. load: time of a plain
    pass now over its time in the table, None before anything ran. pace: of the engine's threads, None where they never
    change or nothing ran. second: None where no second model was named.
    """

    model: ModelFacts
    machine: MachineFacts
    settings: SettingsFacts
    wishes: Wishes
    drafters: tuple[DrafterFacts, ...]
    curve: Curve | None = None
    width_class: ClassFacts | None = None
    load: float | None = None
    ledger: LedgerFacts | None = None
    asked: AskedFacts | None = None
    pace: PaceStatus | None = None
    second: SecondFacts | None = None
