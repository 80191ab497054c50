"""`edgespec doctor`: what a model runs with here, why, and what keeps it from drafting more."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from edgespec.cli.inputs import checked_argument
from edgespec.cli.options import (
    AnswerFlags,
    ModelFlags,
    answer_options,
    engine_options,
    generate_options,
    model_options,
    with_draft_model,
)
from edgespec.cli.paint import choose_look
from edgespec.cli.run import INTERRUPTED

if TYPE_CHECKING:
    from edgespec.backend.cores import CoreUse
    from edgespec.cli.screen import Screen
    from edgespec.doctor.facts import Facts, Wishes
    from edgespec.engine import GenerateOptions
    from edgespec.library.resolve import ResolvedModel

# Counters of the cores move in steps of 10 ms; shorter windows say little.
WINDOW_SECONDS = 0.5
# Tokens of context to look at prices for, if none are given and nothing is asked.
USUAL_CONTEXT = 256
# Long enough to see a text repeat itself, unless --max-tokens says otherwise.
ASKED_TOKENS = 128
# Commands that draft, whose own settings may switch it off.
_DRAFTING = ("chat", "run")
_CONTEXT_HELP = f"Settings and prices for texts of so many tokens.  [default: {USUAL_CONTEXT}, or those of --ask]"
_FROM = {
    ParameterSource.COMMANDLINE: "--draft",
    ParameterSource.ENVIRONMENT: "the environment (EDGESPEC_DRAFT or EDGESPEC_DOCTOR_DRAFT)",
    ParameterSource.DEFAULT_MAP: "[doctor] in config.toml",
}


@click.command(short_help="Say what is used, why, and what keeps it from drafting more.")
@click.argument("model", required=False, envvar="EDGESPEC_MODEL")
@click.option("--context", type=click.IntRange(1), help=_CONTEXT_HELP)
@click.option("--ask", metavar="PROMPT", help="Make one answer, and count why its rounds were drafted or not.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@answer_options(temperature=0.0, top_p=1.0)
@model_options
@click.pass_context
def doctor(
    ctx: click.Context,
    model: str | None,
    context: int | None,
    ask: str | None,
    as_json: bool,
    answer_flags: AnswerFlags,
    model_flags: ModelFlags,
) -> None:
    """Explain MODEL on this machine: settings, what passes cost, drafters, and each reason not to draft.

    Give it the options that you give to 'edgespec run'. Without --ask nothing is loaded.
    """
    from edgespec.cli.opening import find_model
    from edgespec.cli.screen import Screen, emit
    from edgespec.doctor.findings import findings
    from edgespec.doctor.gather import at_rest
    from edgespec.doctor.report import to_fields, to_lines

    model_flags, answer_flags = with_draft_model(model_flags, answer_flags)
    options = generate_options(answer_flags)
    wishes = _wishes(ctx, options, context or USUAL_CONTEXT)
    screen = Screen(choose_look(None))
    found = find_model(model, model_flags, screen)
    facts = at_rest(found.name, found.path, engine_options(model_flags), wishes, _core_use())
    if ask is not None:
        options = options if answer_flags.max_tokens else replace(options, max_tokens=ASKED_TOKENS)
        facts = _ask(ctx, facts, found, checked_argument(ask, "--ask"), options, model_flags, screen, context)
    causes = findings(facts)
    emit(json.dumps(to_fields(facts, causes)) + "\n" if as_json else "\n".join(to_lines(facts, causes)) + "\n")


def _wishes(ctx: click.Context, options: GenerateOptions, context: int) -> Wishes:
    from edgespec.doctor.facts import Wishes

    said = _FROM.get(ctx.get_parameter_source("draft") or ParameterSource.DEFAULT, "the default")
    has_prediction = bool(options.prediction)
    draft = options.draft.value
    return Wishes(draft, said, _off_for(), has_prediction, options.exact, options.max_tokens, context)


def _off_for() -> tuple[str, ...]:
    """Where the commands that draft are told not to. Raises BadInput for a configuration that cannot be read."""
    from edgespec.config import load_config

    config = load_config()
    places = [f"for '{name}' in config.toml" for name in _DRAFTING if config.get(name, {}).get("draft") == "off"]
    variables = [(name, f"EDGESPEC_{name.upper()}_DRAFT") for name in _DRAFTING]
    return (
        *places,
        *(f"for '{name}' by {variable}" for name, variable in variables if os.environ.get(variable) == "off"),
    )


def _core_use() -> CoreUse:
    from edgespec.backend.cores import CoreReader

    reader = CoreReader()
    time.sleep(WINDOW_SECONDS)
    return reader.use()


def _ask(
    ctx: click.Context,
    facts: Facts,
    found: ResolvedModel,
    prompt: str,
    options: GenerateOptions,
    flags: ModelFlags,
    screen: Screen,
    context: int | None,
) -> Facts:
    """One answer, of which nothing is printed; without a `context` the facts are those for its own length. Raises the
    engine's errors.
    """
    from edgespec.cli.follow import wait_for
    from edgespec.cli.opening import load_model
    from edgespec.doctor.gather import with_answer
    from edgespec.doctor.measured import OpenedFacts
    from edgespec.engine.arrangement import USUAL_ANSWER
    from edgespec.events import Finish

    with load_model(found, engine_options(flags), screen).engine as engine:
        if engine.header.has_chat_template:
            answer = engine.conversation().say(prompt, options)
        else:
            answer = engine.complete(prompt, options)
        completion = wait_for(answer, screen)
        if completion.finish is Finish.CANCELLED:
            ctx.exit(INTERRUPTED)
        # What the engine chose its settings for.
        length = context or completion.usage.prompt_tokens + min(options.max_tokens, USUAL_ANSWER)
        explained = engine.explain(length, options.draft, completion.timings.width_class)
        opened = OpenedFacts(engine.settings, tuple(engine.notices), engine.tuning, explained, engine.pace)
    return with_answer(replace(facts, wishes=replace(facts.wishes, context=length)), completion, opened)
