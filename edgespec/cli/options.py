"""The options that commands share, and what the engine makes of them. Importing this loads no engine."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgespec.choice import DraftChoice
from edgespec.cli.inputs import read_text
from edgespec.errors import BadInput

if TYPE_CHECKING:
    from edgespec.engine import EngineOptions, GenerateOptions
    from edgespec.text.grammar import Grammar

T = TypeVar("T")
Command = Callable[..., None]
Decorator = Callable[[Command], Command]

# Drawn seeds stay short enough to be typed again.
DRAWN_SEED_BITS = 32


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """How a model is found and run."""

    ctx_size: int | None
    threads: int | None
    gpu_layers: int | None
    draft_model: str | None
    draft_device: str
    corpus: tuple[Path, ...]
    remember: bool
    offline: bool


@dataclass(frozen=True, slots=True)
class AnswerFlags:
    """How answers are made. `seed` None: one is drawn."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    frequency_penalty: float
    presence_penalty: float
    penalty_last_n: int
    seed: int | None
    exact: bool
    draft: str
    max_tokens: int | None
    stop: tuple[str, ...]
    predict: Path | None
    verify: str
    json_schema: Path | None
    grammar: Path | None


def model_options(command: Command) -> Command:
    """Gives the command an argument `model_flags`."""
    options = (
        _option("--ctx-size", type=int, help="Tokens of prompt and answer together.  [default: 4096]"),
        _option("--threads", type=int, help="Threads the model runs on.  [default: one per core]"),
        _option("--gpu-layers", type=int, help="Layers on the GPU, -1 for all.  [default: all, if there is one]"),
        _option("--draft-model", metavar="MODEL", help="A second, smaller model that drafts; 'none' for no such one."),
        _option("--draft-device", default="auto", show_default=True, metavar="DEVICE", help=DEVICE_HELP),
        _option("--corpus", type=FILE, multiple=True, metavar="PATH", help="Draft from these files and folders, too."),
        _option("--remember", is_flag=True, help="Keep answers on this machine, to draft from them later."),
        _option("--offline", is_flag=True, help="Use no network at all; also EDGESPEC_OFFLINE=1."),
    )
    return _gathered(ModelFlags, "model_flags", options)(command)


def answer_options(temperature: float, top_p: float) -> Decorator:
    """Gives the command an argument `answer_flags`, with these defaults."""
    options = (
        _number("--temperature", temperature, "How freely tokens are drawn; 0 takes the likeliest."),
        _number("--top-k", 0, "Draw from the k likeliest tokens only; 0 means all."),
        _number("--top-p", top_p, "Draw from the likeliest tokens that share this probability."),
        _number("--min-p", 0.0, "Leave out tokens below this part of the likeliest one's probability."),
        _number("--repeat-penalty", 1.0, "Divides the logits of tokens seen lately; 1 is off."),
        _number("--frequency-penalty", 0.0, "Subtracted from a logit for every time the token was seen."),
        _number("--presence-penalty", 0.0, "Subtracted once from the logits of tokens seen lately."),
        _number("--penalty-last-n", 64, "How many tokens back the penalties look."),
        _option("--seed", type=int, help="The same seed gives the same answer.  [default: drawn, and shown]"),
        _option("--exact", is_flag=True, help="Bit for bit the answer of plain decoding, whatever is drafted."),
        _option("--draft", type=Drafts(), default="auto", show_default=True, metavar="NAMES|MODEL", help=DRAFT_HELP),
        _option("--predict", type=FILE, metavar="FILE", help="Draft from a text that the answer will resemble."),
        _option("--json-schema", type=FILE, metavar="FILE", help="Answer with JSON that this schema allows."),
        _option("--grammar", type=FILE, metavar="FILE", help="Answer with a text of this grammar, in Lark syntax."),
        _option("--verify", default="path", show_default=True, metavar="NAME", help=VERIFY_HELP),
        _option("--max-tokens", type=int, help="The longest answer.  [default: 1024]"),
        _option("--stop", multiple=True, metavar="TEXT", help="End the answer before this text; can be repeated."),
    )
    return _gathered(AnswerFlags, "answer_flags", options)


FILE = click.Path(path_type=Path)


class Drafts(click.ParamType[str]):
    """Names of drafters joined by commas, one of them perhaps a model's; it stays a text."""

    name = "drafts"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            DraftChoice.split(value)
        except BadInput as error:
            self.fail(str(error), param, ctx)
        return value


VERIFY_HELP = "How drafts are judged: path, rejection, block, sibling-set, specinfer, recursive or traversal."
DEVICE_HELP = "Where the second model runs: cpu, gpu, or an ONNX Runtime provider such as CoreML; auto measures."
DRAFT_HELP = (
    "auto: what pays. off: plain decoding. lookup, suffix: what followed the same words before, here or in the corpus. "
    "recycle: what the model nearly said. lookahead, jacobi: its own guesses, refined. model: the second model; "
    "cascade: with drafts of its own. A comma joins "
    "several; a file or a model's name makes it the second model."
)


def color_option(command: Command) -> Command:
    help_text = "Tint guesses that were accepted, by drafter; --no-color prints no escape codes at all."
    return _option("--color/--no-color", default=None, help=help_text)(command)


def template_option(command: Command) -> Command:
    help_text = "Another chat template: chatml, gemma, llama3, plain, or a jinja2 file."
    return _option("--template", metavar="NAME|FILE", help=help_text)(command)


def engine_options(flags: ModelFlags) -> EngineOptions:
    """Raises BadInput for values out of range."""
    from edgespec.engine import EngineOptions

    usual = EngineOptions()
    ctx_size = usual.ctx_size if flags.ctx_size is None else flags.ctx_size
    draft_model = "" if flags.draft_model == "none" else flags.draft_model
    return EngineOptions(
        ctx_size,
        flags.threads,
        flags.gpu_layers,
        draft_model=draft_model,
        draft_device=flags.draft_device,
        corpus=tuple(flags.corpus),
        remember=flags.remember,
    )


def with_draft_model(model_flags: ModelFlags, answer_flags: AnswerFlags) -> tuple[ModelFlags, AnswerFlags]:
    """A model named with `--draft` is the second model. Raises BadInput when `--draft-model` names another."""
    choice, model_flags = draft_and_model(answer_flags.draft, model_flags)
    return model_flags, replace(answer_flags, draft=choice.value)


def draft_and_model(draft: str, flags: ModelFlags) -> tuple[DraftChoice, ModelFlags]:
    """The same for a `--draft` by itself."""
    choice, model = DraftChoice.split(draft)
    if not model:
        return choice, flags
    if flags.draft_model not in (None, model):
        both = f"--draft {model} and --draft-model {flags.draft_model}"
        raise BadInput(both, "there is one second model", "name it once")
    return choice, replace(flags, draft_model=model)


def generate_options(flags: AnswerFlags) -> GenerateOptions:
    """Draws a seed if none was given. Raises BadInput for a value out of range and for files that cannot be used."""
    from edgespec.engine import GenerateOptions
    from edgespec.spec.law import SamplingSettings

    sampling = SamplingSettings(
        temperature=flags.temperature,
        top_k=flags.top_k,
        top_p=flags.top_p,
        min_p=flags.min_p,
        repeat_penalty=flags.repeat_penalty,
        frequency_penalty=flags.frequency_penalty,
        presence_penalty=flags.presence_penalty,
        penalty_last_n=flags.penalty_last_n,
        seed=secrets.randbits(DRAWN_SEED_BITS) if flags.seed is None else flags.seed,
    )
    usual = GenerateOptions()
    return GenerateOptions(
        sampling=sampling,
        max_tokens=usual.max_tokens if flags.max_tokens is None else flags.max_tokens,
        stop=flags.stop,
        exact=flags.exact,
        draft=DraftChoice.parse(flags.draft),
        verify=flags.verify,
        prediction=read_text(flags.predict, "--predict") if flags.predict else "",
        grammar=_grammar(flags),
    )


def _grammar(flags: AnswerFlags) -> Grammar | None:
    """Raises BadInput for an unreadable file, one that is no JSON schema, and for both a schema and a grammar."""
    from edgespec.text.grammar import Grammar

    if flags.json_schema and flags.grammar:
        raise BadInput("--json-schema and --grammar", "an answer follows one of them", "give one")
    if flags.json_schema:
        return Grammar.json_schema(read_text(flags.json_schema, "--json-schema"), f"--json-schema {flags.json_schema}")
    if flags.grammar:
        return Grammar.lark(read_text(flags.grammar, "--grammar"), f"--grammar {flags.grammar}")
    return None


def _option(name: str, **settings: Any) -> Decorator:
    """A click option that EDGESPEC_<NAME> sets too, for every command; EDGESPEC_<COMMAND>_<NAME> is click's own."""
    variable = "EDGESPEC_" + name.partition("/")[0].strip("-").replace("-", "_").upper()
    return click.option(name, envvar=variable, **settings)


def _number(name: str, default: float, help_text: str) -> Decorator:
    return _option(name, type=type(default), default=default, show_default=True, help=help_text)


def _gathered(kind: type[T], name: str, options: Sequence[Decorator]) -> Decorator:
    """Click hands over every option by itself; the command gets them as one `kind`, in the argument `name`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def gather(**values: Any) -> None:
            part = {field.name: values.pop(field.name) for field in fields(kind)}  # type: ignore[arg-type]
            command(**values, **{name: kind(**part)})

        decorated: Command = gather
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate
