"""Gathers the facts: from the model's header, the stored tuning and the machine's counters; from an engine if one runs.

Loads no model. Heavy imports start here.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from edgespec.backend import machine
from edgespec.backend.cores import CoreUse
from edgespec.backend.settings import LlamaSettings
from edgespec.doctor.facts import (
    AskedFacts,
    Curve,
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
from edgespec.engine import EngineOptions
from edgespec.engine.choosing import chosen_settings, known_tuning, tuned_as
from edgespec.engine.opening import require_language_model
from edgespec.events import Completion, Notice
from edgespec.library.header import GgufHeader, read_header
from edgespec.spec.cost import CostTable
from edgespec.spec.policy import Explanation
from edgespec.spec.predict import break_even_table
from edgespec.tune.decide import PRIOR_ACCEPTANCE
from edgespec.tune.store import tuning_records
from edgespec.tune.tuning import Tuned, Tuning
from edgespec.tune.words import in_words

# A predicted text is worth giving when the answer mostly repeats it.
PREDICTED_ACCEPTANCE = 0.9
# Keys of a header under which models state the size of a running state.
_STATE_KEYS = (".ssm.", ".wkv.", ".shortconv.", ".wkv_head_size", ".linear_attn.")
# Names of llama.cpp's device back ends, as they are in their files' names.
_GPU_BACKENDS = ("cuda", "hip", "musa", "metal", "vulkan", "sycl", "opencl", "cann")


def at_rest(name: str, path: Path, options: EngineOptions, wishes: Wishes, use: CoreUse | None) -> Facts:
    """What can be known without loading the model. `use`: of the cores just now, None if it was not looked at.

    Raises what reading the header, checking memory and proving settings raise; the first trial of settings takes a
    child process, as it does when the model is opened.
    """
    from edgespec.backend.llama.native import library_fingerprint, supports_gpu

    header = read_header(path)
    require_language_model(header)
    library, has_gpu = library_fingerprint(), supports_gpu()
    tuning = known_tuning(path, library, options, tuning_records())
    notices: list[Notice] = []
    settings = chosen_settings(header, options, library, has_gpu, tuning, notices.append)
    tuned = tuned_as(settings, tuning)
    return Facts(
        model=model_facts(name, header),
        machine=machine_facts(library, gpu_of(settings, has_gpu, library_files()), use),
        settings=settings_facts(settings, tuning, forced_flags(options), notices),
        wishes=wishes,
        drafters=possible_drafters(wishes),
        curve=curve_of(tuning, tuned, wishes) if tuning and tuned else None,
        width_class=tuning.width_class or None if tuning else None,
    )


def with_answer(facts: Facts, completion: Completion, opened: OpenedFacts) -> Facts:
    """The same after an answer of an engine: what it really runs with, and what its policy says."""
    timings = completion.timings
    explained = opened.explanation
    rounds = sorted(explained.rounds.items(), key=lambda item: -item[1]) if explained else []
    settings = settings_facts(opened.settings, opened.tuning, facts.settings.forced, opened.notices)
    can_rollback = not any(one.code == "no-rollback" for one in opened.notices)
    asked = AskedFacts(
        n_prompt=completion.usage.prompt_tokens,
        n_output=completion.usage.completion_tokens,
        n_drafted=timings.draft_n,
        n_accepted=timings.draft_n_accepted,
        tokens_per_second=timings.tokens_per_second,
        rounds=tuple(rounds),
        notices=completion.notices,
    )
    return replace(
        facts,
        model=replace(facts.model, can_rollback=can_rollback),
        settings=settings,
        curve=live_curve(facts.wishes, opened),
        width_class=timings.width_class if facts.wishes.exact else facts.width_class,
        asked=asked,
        load=explained.load if explained else None,
        ledger=LedgerFacts(explained.lost_seconds, explained.headroom_seconds) if explained else None,
        drafters=observed_drafters(facts.drafters, explained),
    )


@dataclass(frozen=True, slots=True)
class OpenedFacts:
    """What an engine says of itself. tuning and explanation: None while nothing is measured."""

    settings: LlamaSettings
    notices: tuple[Notice, ...]
    tuning: Tuning | None
    explanation: Explanation | None


# -- parts ----------------------------------------------------------------------------------------------------------


def model_facts(name: str, header: GgufHeader) -> ModelFacts:
    return ModelFacts(
        name,
        str(header.path),
        header.architecture,
        header.quantisation,
        header.tensor_bytes,
        header.n_parameters,
        header.context_length,
        header.sliding_window,
        not has_running_state(header),
    )


def has_running_state(header: GgufHeader) -> bool:
    """Recurrent and hybrid models state the size of what they carry along."""
    return any(part in f".{key.partition('.')[2]}" for key in header.values for part in _STATE_KEYS)


def settings_facts(
    settings: LlamaSettings, tuning: Tuning | None, forced: Seq[str], notices: Seq[Notice]
) -> SettingsFacts:
    untuned = Origin.FORCED if forced else Origin.PROBED
    bare = SettingsFacts(settings, untuned, tuple(forced), notices=tuple(notices))
    if tuning is None:
        return bare
    died = [one for one in tuning.candidates if one.fate.startswith("died")]
    return replace(
        bare,
        origin=untuned if tuned_as(settings, tuning) is None else Origin.TUNED,
        measured_on=tuning.measured_on,
        n_tried=len(tuning.candidates),
        speedup=tuning.plain_speedup_over_defaults,
        died=tuple(f"{in_words(one.settings)} {one.fate}" for one in died),
        cut_short=tuning.is_partial,
    )


def forced_flags(options: EngineOptions) -> list[str]:
    flags = {"--threads": options.threads, "--gpu-layers": options.gpu_layers}
    return [f"{name} {value}" for name, value in flags.items() if value is not None]


def machine_facts(library: str, gpu: Gpu, use: CoreUse | None) -> MachineFacts:
    return MachineFacts(
        machine.describe(),
        use.n_cores if use else machine.usable_cores(),
        use.others if use else None,
        machine.available_memory_bytes(),
        f"llama-cpp-python {library.partition('|')[0]}",
        gpu,
    )


def gpu_of(settings: LlamaSettings, has_gpu: bool, files: Seq[str]) -> Gpu:
    """files: names of the library's parts, among which a GPU's back end shows that it was built for one."""
    if has_gpu:
        return Gpu.USED if settings.n_gpu_layers else Gpu.UNUSED
    built = any(backend in name.lower() for name in files for backend in _GPU_BACKENDS)
    return Gpu.NO_DEVICE if built else Gpu.NONE


def library_files() -> list[str]:
    """Names of the shared libraries that llama-cpp-python brings; [] where it is not installed as a package."""
    found = find_spec("llama_cpp")
    places = list(found.submodule_search_locations or ()) if found else []
    return sorted(file.name for place in places for file in (Path(place) / "lib").glob("*") if file.is_file())


def possible_drafters(wishes: Wishes) -> tuple[DrafterFacts, ...]:
    """Those that need no second model, most promising first."""
    given = [DrafterFacts("given", 0, PREDICTED_ACCEPTANCE)] if wishes.has_prediction else []
    lookup = [DrafterFacts("lookup", 0, PRIOR_ACCEPTANCE)] if wishes.draft in ("auto", "lookup") else []
    return (*given, *lookup)


def observed_drafters(drafters: Seq[DrafterFacts], explained: Explanation | None) -> tuple[DrafterFacts, ...]:
    """With what has been seen of them, where it was enough."""
    seen = {view.name: view for view in explained.drafters} if explained else {}
    known = [
        DrafterFacts(one.name, seen[one.name].n_steps, seen[one.name].acceptance) if one.name in seen else one
        for one in drafters
    ]
    return tuple(one if one.is_observed else old for one, old in zip(known, drafters, strict=True))


def curve_of(tuning: Tuning, tuned: Tuned, wishes: Wishes) -> Curve:
    width_class = tuning.width_class if wishes.exact else ()
    return curve_at(tuned.table, wishes.context, width_class)


def live_curve(wishes: Wishes, opened: OpenedFacts) -> Curve | None:
    """With what rounds have taught about the prices; the table's own are those of a quiet machine."""
    tuned = tuned_as(opened.settings, opened.tuning)
    if opened.tuning is None or tuned is None:
        return None
    curve = curve_of(opened.tuning, tuned, wishes)
    return curve if opened.explanation is None else replace(curve, break_even=opened.explanation.break_even)


def curve_at(table: CostTable, context: int, width_class: Seq[int]) -> Curve:
    """The measured widths, of a class of widths only its own; the first of them is what a plain round takes."""
    pairs = [
        (width, seconds)
        for width, seconds in zip(table.widths, table.at(context), strict=True)
        if not width_class or width in width_class
    ] or [(1, table.at(context)[0])]
    widths, seconds = tuple(width for width, _ in pairs), tuple(s for _, s in pairs)
    return Curve(context, widths, seconds, break_even_table(widths, seconds), table.is_partial)
