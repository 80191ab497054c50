"""Opening a graph in ONNX Runtime with settings of edgespec's own. The only module that imports it; knows no cache."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from edgespec.errors import BadInput, CorruptModel, EdgeSpecError, EngineFailure, MissingExtra
from edgespec.stepfile import AGAIN, GRAPH, StepFile, StepFolder

if TYPE_CHECKING:
    import onnxruntime

EXTRA = "run: pip install onnxruntime"
CPU = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True)
class OnnxSettings:
    """provider: an execution provider by its name, with or without the ending "ExecutionProvider". n_ctx: cells at
    most, None for as many as the step model may have. Raises BadInput.
    """

    n_threads: int = 1
    provider: str = CPU
    n_ctx: int | None = None

    def __post_init__(self) -> None:
        if self.n_threads < 1:
            raise BadInput(f"n_threads {self.n_threads}", "a draft needs a thread", "give 1 or more")


def runtime() -> ModuleType:
    """Raises MissingExtra."""
    try:
        import onnxruntime
    except ImportError as error:
        why = f"ONNX Runtime is not installed ({error})"
        raise MissingExtra("cannot run a step model", why, EXTRA) from error
    found: ModuleType = onnxruntime
    return found


def open_session(folder: StepFolder, settings: OnnxSettings) -> onnxruntime.InferenceSession:
    """Raises MissingExtra, BadInput (no such provider), CorruptModel (no graph, or not the one that `step.json` speaks
    of), EngineFailure.
    """
    try:
        session = graph_session(str(folder.graph), settings)
    except EdgeSpecError:
        raise
    # ONNX Runtime's exceptions have no class in common but Exception, and whatever it raises is about the file.
    except Exception as error:
        why = f"ONNX Runtime cannot load {GRAPH}: {first_line(error)}"
        raise CorruptModel(f"step model {folder.path}", why, AGAIN) from error
    check_graph(session, folder)
    return session


def graph_session(graph: str | bytes, settings: OnnxSettings) -> onnxruntime.InferenceSession:
    """`graph` is a path or the model itself. Raises MissingExtra, BadInput (no such provider), EngineFailure (one that
    does not start), and the library's own exceptions for a graph that it cannot load.
    """
    ort = runtime()
    provider = find_provider(settings.provider, ort.get_available_providers())
    options = ort.SessionOptions()
    # A provider's own complaints come as exceptions; warnings on stderr would land between a chat's lines.
    options.log_severity_level = 3
    options.intra_op_num_threads = settings.n_threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    # Threads that spin while they wait take the cores from the target: one step takes four times as long beside it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    session = ort.InferenceSession(graph, options, providers=[provider])
    if provider not in session.get_providers():
        why = "ONNX Runtime has it but could not start it"
        raise EngineFailure(f"provider {settings.provider}", why, "install what it needs, or take the CPU's")
    return session


def find_provider(wanted: str, available: list[str]) -> str:
    """Raises BadInput."""
    for name in available:
        if wanted.casefold() in (name.casefold(), name.removesuffix("ExecutionProvider").casefold()):
            return name
    short = ", ".join(name.removesuffix("ExecutionProvider") for name in available)
    why = f"this build of ONNX Runtime has {short}"
    raise BadInput(f"provider {wanted!r}", why, "choose one of these, or install another build")


def check_graph(session: onnxruntime.InferenceSession, folder: StepFolder) -> None:
    """The graph's inputs and outputs are those of `step.json`. Raises CorruptModel."""
    for kind, nodes, wanted in (
        ("input", session.get_inputs(), input_shapes(folder.file)),
        ("output", session.get_outputs(), output_shapes(folder.file)),
    ):
        found = {node.name: tuple(node.shape) for node in nodes}
        if set(found) != set(wanted):
            differing = sorted(set(found) ^ set(wanted))
            _refuse(folder, f"the {kind} {differing[0]} is in one of {GRAPH} and step.json only")
        for name, shape in wanted.items():
            # Symbolic dimensions are texts; what takes any number fits.
            if len(shape) != len(found[name]) or any(
                isinstance(has, int) and need is not None and has != need
                for has, need in zip(found[name], shape, strict=True)
            ):
                _refuse(folder, f"the {kind} {name} of {GRAPH} is {found[name]}, and step.json speaks of {shape}")


def _refuse(folder: StepFolder, why: str) -> None:
    raise CorruptModel(f"step model {folder.path}", why, AGAIN)


def input_shapes(file: StepFile) -> dict[str, tuple[int | None, ...]]:
    """None for the numbers of rows and of cells."""
    half, cells = file.head_dim // 2, (file.n_kv_heads, None, file.head_dim)
    shapes: dict[str, tuple[int | None, ...]] = {"x": (None, file.width), "cos": (None, half), "sin": (None, half)}
    if len(file.rope) > 1:
        shapes |= {"cos_local": (None, half), "sin_local": (None, half)}
    shapes |= {"mask": (None, None), "own_mask": (None, None)}
    if file.windowed:
        shapes |= {"mask_local": (None, None), "own_mask_local": (None, None)}
    for block in range(file.n_blocks):
        shapes |= {f"past_k_{block}": cells, f"past_v_{block}": cells}
    return shapes


def output_shapes(file: StepFile) -> dict[str, tuple[int | None, ...]]:
    shapes: dict[str, tuple[int | None, ...]] = {
        "ids": (None, file.n_ranked),
        "logits": (None, file.n_ranked),
        "log_sums": (None,),
    }
    for block in range(file.n_blocks):
        cells = (file.n_kv_heads, None, file.head_dim)
        shapes |= {f"new_k_{block}": cells, f"new_v_{block}": cells}
    return shapes


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
