"""Gathers the facts: from the model's header, the stored tuning and the machine's counters; from an engine if one runs.

Loads no model. Heavy imports start here.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from edgespec.backend import machine
from edgespec.backend.cores import CoreUse
from edgespec.backend.settings import LlamaSettings
from edgespec.choice import AUTO, OFF, WITH_MODEL
from edgespec.doctor.facts import (
    AskedFacts,
    ClassFacts,
    DrafterFacts,
    Facts,
    Gpu,
    LedgerFacts,
    MachineFacts,
    ModelFacts,
    SecondFacts,
    Wishes,
)
from edgespec.doctor.measured import OpenedFacts, class_of, curve_of, live_curve, settings_facts, settings_for
from edgespec.doctor.second import second_facts
from edgespec.engine import EngineOptions
from edgespec.engine.choosing import chosen_settings, known_tuning, tuned_as
from edgespec.engine.drafting import automatic
from edgespec.engine.opening import require_language_model
from edgespec.engine.pair.devices import Devices
from edgespec.events import Completion, Notice
from edgespec.library.header import GgufHeader, read_header
from edgespec.spec.policy import Explanation
from edgespec.tune.decide import PRIOR_ACCEPTANCE
from edgespec.tune.store import tuning_records
from edgespec.tune.tuning import Tuned

# Exact answers are plain where rejected guesses would leave traces.
_PLAIN_ONLY = ClassFacts((1,), is_cheapest=False)
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
    start = chosen_settings(header, options, library, has_gpu, tuning, notices.append)
    settings = settings_for(start, tuning, wishes.context)
    tuned, model = tuned_as(settings, tuning), model_facts(name, header)
    widths = class_of(tuning.width_class if tuning else (), tuning, tuned, wishes.context)
    if not model.can_rollback or (model.sliding_window and not settings.swa_full):
        widths = _PLAIN_ONLY
    return Facts(
        model=model,
        machine=machine_facts(library, gpu_of(settings, has_gpu, library_files()), use),
        settings=settings_facts(settings, tuning, forced_flags(options), notices, wishes.context),
        wishes=wishes,
        drafters=possible_drafters(wishes, tuned.table.at(0)[0] if tuned else 0.0, bool(options.corpus)),
        curve=curve_of(tuned, wishes, widths) if tuned else None,
        width_class=widths,
        second=_second(options, header, settings, library, tuned, notices),
    )


def _second(
    options: EngineOptions,
    header: GgufHeader,
    settings: LlamaSettings,
    library: str,
    tuned: Tuned | None,
    notices: list[Notice],
) -> SecondFacts | None:
    reference, devices = options.draft_model, Devices(options.draft_device)
    return second_facts(reference, header, settings.n_ctx, library, tuned, notices, devices) if reference else None


def with_answer(facts: Facts, completion: Completion, opened: OpenedFacts) -> Facts:
    """The same after an answer of an engine: what it really runs with, and what its policy says."""
    explained, wishes, tuning = opened.explanation, facts.wishes, opened.tuning
    settings = settings_for(opened.settings, tuning, wishes.context)
    widths = facts.width_class
    if wishes.exact:
        widths = class_of(completion.timings.width_class, tuning, tuned_as(settings, tuning), wishes.context)
    return replace(
        facts,
        model=replace(facts.model, can_rollback=not any(one.code == "no-rollback" for one in opened.notices)),
        settings=settings_facts(settings, tuning, facts.settings.forced, opened.notices, wishes.context),
        curve=live_curve(settings, opened, wishes, widths),
        width_class=widths,
        asked=asked_facts(completion, opened),
        pace=opened.pace,
        load=explained.load if explained else None,
        ledger=LedgerFacts(explained.lost_seconds, explained.headroom_seconds) if explained else None,
        drafters=observed_drafters(facts.drafters, explained),
    )


# -- parts ----------------------------------------------------------------------------------------------------------


def asked_facts(completion: Completion, opened: OpenedFacts) -> AskedFacts:
    timings, explained = completion.timings, opened.explanation
    rounds = sorted(explained.rounds.items(), key=lambda item: -item[1]) if explained else []
    return AskedFacts(
        n_prompt=completion.usage.prompt_tokens,
        n_output=completion.usage.completion_tokens,
        n_drafted=timings.draft_n,
        n_accepted=timings.draft_n_accepted,
        tokens_per_second=timings.tokens_per_second,
        rounds=tuple(rounds),
        notices=completion.notices,
        settings=opened.settings,
    )


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


def possible_drafters(wishes: Wishes, t1_seconds: float = 0.0, has_corpus: bool = False) -> tuple[DrafterFacts, ...]:
    """Those that need no second model, most promising first. t1_seconds: of a plain pass, 0 if it was not measured."""
    given = [DrafterFacts("given", 0, PREDICTED_ACCEPTANCE)] if wishes.has_prediction else []
    named = automatic(t1_seconds, has_corpus) if wishes.draft == AUTO else wishes.draft.split(",")
    free = [DrafterFacts(name, 0, PRIOR_ACCEPTANCE) for name in named if name != OFF and name not in WITH_MODEL]
    return (*given, *free)


def observed_drafters(drafters: Seq[DrafterFacts], explained: Explanation | None) -> tuple[DrafterFacts, ...]:
    """With what has been seen of them, where it was enough."""
    seen = {view.name: view for view in explained.drafters} if explained else {}
    known = [
        DrafterFacts(one.name, seen[one.name].n_steps, seen[one.name].acceptance) if one.name in seen else one
        for one in drafters
    ]
    return tuple(one if one.is_observed else old for one, old in zip(known, drafters, strict=True))
