"""One export from beginning to end: texts where something is chosen by them, the folder, and the comparison.

Opens models, and closes them. Says nothing to anybody but by the progress it reports.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np

from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.onnx import OnnxStep
from edgespec.backend.onnx.session import runtime
from edgespec.backend.probe import model_fingerprint
from edgespec.engine.opening import Opened, open_model
from edgespec.engine.options import EngineOptions
from edgespec.errors import BadInput, DiskFull, EngineFailure
from edgespec.events import Notice
from edgespec.exporting.agreement import Agreement
from edgespec.exporting.layers import Cut, choose_layers
from edgespec.exporting.prompts import PromptSets
from edgespec.exporting.sliced import SlicedModel
from edgespec.exporting.texts import GROUP, Text, greedy_texts, shortened
from edgespec.exporting.verify import N_TIMED, StepSeconds, measure_agreement, measure_steps
from edgespec.exporting.vocabulary import TokenMass
from edgespec.library.header import read_header
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.stepfile import StepFile, folder_bytes, write_step
from edgespec.stepmodel.build import BuildOptions, build_step
from edgespec.stepmodel.build import Stage as BuildStage
from edgespec.stepmodel.gguf_file import count_blocks, read_weights
from edgespec.stepmodel.select import Worth
from edgespec.text.template import Message, load_template
from edgespec.text.vocab import PromptEncoder

# Row counts a run may have: between them it computes up to a third too much, above them it runs twice.
ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
# Texts, and tokens of answers in all, that the cuts of a model are judged by. Each cut is a pass over them and their
# prompts, and there are hundreds of cuts.
N_CHOOSING_TEXTS = 6
N_CHOOSING = 256
# Of each answer that tokens are counted in.
N_COUNTED_EACH = 256
# Answers are asked for this much longer than their share of the positions, since some end early.
SPARE = 1.5


class Layers(Enum):
    """Blocks that are not listed by their numbers."""

    ALL = "all"
    AUTO = "auto"


class Stage(Enum):
    """What is being done, in this order."""

    ANSWERS = "answers"
    SLICING = "slicing"
    CUTTING = "cutting"
    READING = "reading"
    WRITING = "writing"
    COMPARING = "comparing"
    TIMING = "timing"


Tell = Callable[[Stage, float], None]


@dataclass(frozen=True, slots=True)
class Order:
    """n_vocabulary: tokens of a trimmed head, None for all. n_positions: to compare at, 0 for no comparison."""

    source: Path
    out: Path
    layers: tuple[int, ...] | Layers
    n_vocabulary: int | None
    n_positions: int
    prompts: PromptSets


@dataclass(frozen=True, slots=True)
class Exported:
    """cut: what `auto` found. agreement, seconds: None without a comparison."""

    path: Path
    n_bytes: int
    file: StepFile
    cut: Cut | None
    agreement: Agreement | None
    seconds: StepSeconds | None


def export(order: Order, notify: Callable[[Notice], None], tell: Tell) -> Exported:
    """Raises what reading, opening and writing raise, before anything long begins where that can be told."""
    _check(order)
    if order.layers is not Layers.AUTO and order.n_vocabulary is None and not order.n_positions:
        return _finish(order, None, None, tell)
    with _opened(order.source, notify) as asked:
        cut, ids = _choices(order, asked, tell)
        return _finish(replace(order, layers=cut.layers) if cut else order, cut, ids, tell, asked)


def _check(order: Order) -> None:
    """What can be refused at once, other architectures among it. Raises EdgeSpecErrors."""
    n_blocks = count_blocks(order.source)
    if order.n_positions or order.layers is Layers.AUTO:
        runtime()
    if isinstance(order.layers, tuple) and order.layers[-1] >= n_blocks:
        raise BadInput(f"layer {order.layers[-1]}", f"the model has 0 to {n_blocks - 1}", "keep some of these")
    if order.out.exists():
        raise BadInput(f"cannot write {order.out}", "it exists already", "remove it, or give another --out")
    require_room(order, nearest_folder(order.out), n_blocks)


def require_room(order: Order, folder: Path, n_blocks: int) -> None:
    """Raises DiskFull. About the source's bytes are written, and each token's embedding in 16 bits."""
    header = read_header(order.source)
    n_kept = len(order.layers) if isinstance(order.layers, tuple) else n_blocks
    n_bytes = header.tensor_bytes * n_kept // n_blocks + 2 * header.n_vocab * header.embedding_length
    n_free = shutil.disk_usage(folder).free
    if n_free < n_bytes:
        why = f"about {n_bytes / 1e6:.0f} MB are needed and {n_free / 1e6:.0f} MB are free"
        raise DiskFull(f"cannot write {order.out}", why, "make room, or give an --out on another disk")


def nearest_folder(path: Path) -> Path:
    """Of the path's parents the deepest that is there."""
    return next(parent for parent in path.absolute().parents if parent.is_dir())


class _Asked:
    """The model that is exported, loaded for asking."""

    def __init__(self, opened: Opened) -> None:
        self.target: LlamaTarget = opened.target
        self.vocab = opened.vocab
        self.always = {*opened.vocab.special_tokens.values(), *opened.vocab.end_tokens}
        self._encoder = PromptEncoder(opened.vocab)
        own = opened.header.chat_template
        self._template = load_template(None, own, opened.vocab.bos_text, opened.vocab.eos_text)

    def answers(
        self,
        prompts: Seq[str],
        n_each: int,
        tell: Callable[[float], None],
        on_row: Callable[[FloatArray], None] = lambda _: None,
    ) -> list[Text]:
        tokens = [self._tokens(prompt) for prompt in prompts]
        done, n_wanted = 0, n_each * len(prompts)

        def count(n: int) -> None:
            nonlocal done
            done += n
            tell(done / n_wanted)

        return greedy_texts(self.target, tokens, n_each, self.vocab.end_tokens, count, on_row)

    def _tokens(self, prompt: str) -> IntArray:
        segments = self._template.render_segments([Message("user", prompt)], True, self._encoder.specials)
        return np.array(self._encoder.encode(segments), dtype=np.int32)


@contextmanager
def _opened(source: Path, notify: Callable[[Notice], None]) -> Iterator[_Asked]:
    """On one thread of the CPU, for that is what a step is compared with."""
    opened = open_model(source, EngineOptions(threads=1, gpu_layers=0), notify)
    try:
        opened.target.reopen(replace(opened.target.settings, max_sequences=GROUP, max_leaves=1))
        yield _Asked(opened)
    finally:
        opened.target.close()


def _choices(order: Order, asked: _Asked, tell: Tell) -> tuple[Cut | None, IntArray | None]:
    """The blocks and the tokens to keep, where they are to be chosen."""
    if order.layers is not Layers.AUTO and order.n_vocabulary is None:
        return None, None
    mass = TokenMass(asked.vocab.n_vocab)
    if order.n_vocabulary:  # sizes that cannot be are refused before anything long begins
        mass.head_ids(order.n_vocabulary, asked.always)
    counted = order.n_vocabulary is not None
    prompts = order.prompts.choosing[: None if counted else N_CHOOSING_TEXTS]
    n_each = N_COUNTED_EACH if counted else N_CHOOSING // len(prompts) + 1
    texts = asked.answers(prompts, n_each, lambda done: tell(Stage.ANSWERS, done), mass.add)
    if not texts:
        raise _silent(order)
    cut = _cut(order, shortened(texts[:N_CHOOSING_TEXTS], N_CHOOSING), tell) if order.layers is Layers.AUTO else None
    if order.n_vocabulary is None:
        return cut, None
    return cut, mass.head_ids(order.n_vocabulary, asked.always)


def _cut(order: Order, texts: Seq[Text], tell: Tell) -> Cut:
    weights = read_weights(order.source)
    model = SlicedModel(weights, texts, lambda done: tell(Stage.SLICING, done))

    def on_cut(cut: Cut) -> None:
        model.settle(cut.layers)
        tell(Stage.CUTTING, 1 - len(cut.layers) / model.n_blocks)

    return choose_layers(model.n_blocks, lambda layers: Worth(model.hits(layers), model.share(layers)), on_cut)


def _finish(order: Order, cut: Cut | None, ids: IntArray | None, tell: Tell, asked: _Asked | None = None) -> Exported:
    options = BuildOptions(
        layers=order.layers if isinstance(order.layers, tuple) else None,
        head_ids=None if ids is None else tuple(ids.tolist()),
        rows=ROWS,
        source_fingerprint=model_fingerprint(order.source),
    )
    file = write_step(order.out, lambda folder: _filled(order.source, folder, options, tell))
    agreement, seconds = _compared(order, asked, tell) if asked and order.n_positions else (None, None)
    return Exported(order.out, folder_bytes(order.out), file, cut, agreement, seconds)


def _filled(source: Path, folder: Path, options: BuildOptions, tell: Tell) -> StepFile:
    def on_progress(stage: BuildStage, done: float) -> None:
        tell(Stage.READING if stage is BuildStage.READ else Stage.WRITING, done)

    return build_step(source, folder, options, on_progress)


def _compared(order: Order, asked: _Asked, tell: Tell) -> tuple[Agreement, StepSeconds]:
    prompts = order.prompts.judging
    n_each = max(N_TIMED + 2, int(SPARE * order.n_positions / len(prompts)) + 1)
    answers = asked.answers(prompts, n_each, lambda done: tell(Stage.ANSWERS, done))
    longest = max(answers, key=lambda text: len(text.answer), default=None)
    if longest is None or len(longest.answer) < 2:
        raise _silent(order)
    texts = shortened(answers, order.n_positions)
    n, done = sum(len(text.answer) for text in texts), 0

    def count(n_rows: int) -> None:
        nonlocal done
        done += n_rows
        tell(Stage.COMPARING, done / n)

    step = OnnxStep.open(order.out)
    try:
        agreement = measure_agreement(asked.target, step, texts, count)
        tell(Stage.TIMING, 0.0)
        return agreement, measure_steps(asked.target, step, longest, time.perf_counter)
    finally:
        step.close()


def _silent(order: Order) -> EngineFailure:
    why = "it answered the prompts with hardly a token"
    return EngineFailure(
        f"cannot judge a step model of {order.source}", why, "export without --verify, or see 'edgespec check'"
    )
