"""`edgespec run`: one question, one answer on stdout, and out. Meant for pipes and scripts as much as for people."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from edgespec.cli.inputs import checked_argument, read_stdin, read_text, without_last_newline
from edgespec.cli.options import (
    AnswerFlags,
    ModelFlags,
    answer_options,
    color_option,
    generate_options,
    model_options,
    template_option,
    with_draft_model,
)
from edgespec.cli.paint import choose_look
from edgespec.errors import BadInput
from edgespec.events import Completion, Finish, Notice

if TYPE_CHECKING:
    from edgespec.engine import Engine

# What a shell reports for a program ended by Ctrl-C.
INTERRUPTED = 130
# An answer that is no text of its grammar yet: who reads it must not take it for one.
CUT_SHORT = 18
# How arguments begin or end that name a model and are no question.
_MODEL_PREFIXES = ("hf:", "ollama:", "lmstudio:", "llama.cpp:")
CONTINUES = Notice("no-chat-template", "this model was not trained to chat, so it continues the text as it stands")


@click.command(short_help="Answer one prompt and leave; for pipes and scripts.")
@click.argument("words", nargs=-1, metavar="[MODEL] [PROMPT]")
@click.option("--model", "-m", envvar="EDGESPEC_MODEL", help="The model; the same as MODEL in front of the prompt.")
@click.option("--prompt-file", type=click.Path(path_type=Path), metavar="FILE", help="Read the prompt from a file.")
@click.option("--system", help="A system prompt.")
@template_option
@click.option("--raw", is_flag=True, help="Continue the text as it stands: no chat template.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@click.option("--logprobs", type=int, metavar="N", help="With --json: log probabilities, and N alternatives (0 to 20).")
@click.option("--stats/--no-stats", default=None, help="The line about speed on stderr.  [default: on a terminal]")
@color_option
@answer_options(temperature=0.0, top_p=1.0)
@model_options
@click.pass_context
def run(
    ctx: click.Context,
    words: tuple[str, ...],
    model: str | None,
    prompt_file: Path | None,
    system: str | None,
    template: str | None,
    raw: bool,
    as_json: bool,
    logprobs: int | None,
    stats: bool | None,
    color: bool | None,
    answer_flags: AnswerFlags,
    model_flags: ModelFlags,
) -> None:
    """Answer PROMPT on stdout and leave.

    One argument is the prompt and goes to the starter model; of two the first is the MODEL. A prompt of '-' is read
    from standard input. MODEL is a GGUF file, a name from 'edgespec models', or hf:user/repo[:quant].

    \b
      edgespec run "Why is the sky blue?"
      edgespec run ./model.gguf "Why is the sky blue?"
      echo "Why is the sky blue?" | edgespec run -
      edgespec run -m ./model.gguf --raw --prompt-file start.txt
    """
    _refuse_conflicts(raw, system, template)
    if logprobs is not None and not as_json:
        raise click.UsageError("--logprobs needs --json: log probabilities are part of the JSON object only.")
    named = model if ctx.get_parameter_source("model") is ParameterSource.COMMANDLINE else None
    chosen, prompt = _model_and_prompt(words, named, prompt_file)
    model_flags, answer_flags = with_draft_model(model_flags, answer_flags)
    options = replace(generate_options(answer_flags), n_top_logprobs=logprobs)

    from edgespec.cli.follow import show, wait_for
    from edgespec.cli.opening import open_model
    from edgespec.cli.screen import Screen, emit
    from edgespec.cli.stats import completion_json, ending, stats_line

    screen = Screen(choose_look(color))
    with open_model(chosen or model, model_flags, screen).engine as engine:
        continues = raw or (not template and not system and not engine.header.has_chat_template)
        notices = [*engine.notices, *([CONTINUES] if continues and not raw else [])]
        for notice in notices:
            screen.notice(notice)
        if continues:
            answer = engine.complete(prompt, options)
        else:
            answer = engine.conversation(system or "", template).say(prompt, options)
        completion = wait_for(answer, screen) if as_json else show(answer, screen)
        scores = None if logprobs is None else _scores(completion, engine)
    if as_json:
        emit(completion_json(completion, notices, scores) + "\n")
    if stats or (stats is None and not as_json and sys.stderr.isatty()):
        screen.dim(stats_line(completion, options.max_tokens))
    elif stats is None and completion.finish is Finish.LENGTH and not as_json:
        screen.dim(ending(completion, options.max_tokens))
    if completion.finish is Finish.CANCELLED:
        ctx.exit(INTERRUPTED)
    if completion.finish is Finish.LENGTH and options.grammar is not None:
        ctx.exit(CUT_SHORT)


def _scores(completion: Completion, engine: Engine) -> dict[str, object]:
    """In the shape that OpenAI's API gives them for a chat."""
    from edgespec.server.scores import ScoreWriter, Spelling

    return ScoreWriter(Spelling(engine.vocab), is_chat=True).write(completion.scores)


def _refuse_conflicts(raw: bool, system: str | None, template: str | None) -> None:
    if raw and (system or template):
        raise click.UsageError("--raw continues the text as it stands; --system and --template need a chat template.")


def _model_and_prompt(words: tuple[str, ...], named: str | None, prompt_file: Path | None) -> tuple[str | None, str]:
    """From the arguments, by the rules in the command's help. Raises click.UsageError and BadInput."""
    model, source = _assign(words, named, prompt_file)
    if source is not None and source != "-":
        prompt = checked_argument(source, "the prompt")
    elif source is None and prompt_file is not None:
        prompt = without_last_newline(read_text(prompt_file, "--prompt-file"))
    else:
        prompt = read_stdin()
    if not prompt.strip():
        raise BadInput("the prompt", "it is empty", "give a text to answer")
    return model, prompt


def _assign(words: tuple[str, ...], named: str | None, prompt_file: Path | None) -> tuple[str | None, str | None]:
    """(MODEL, PROMPT) as typed; PROMPT None where it comes from --prompt-file. Standard input is '-'."""
    room_for_model = 0 if named else 1
    room_for_prompt = 0 if prompt_file else 1
    if len(words) > room_for_model + room_for_prompt:
        raise click.UsageError(_too_many(words, named, prompt_file))
    if prompt_file is not None:
        return (words[0] if words else named), None
    if len(words) == 2:
        return words[0], words[1]
    if not words:
        return named, _piped("There is no prompt.")
    if named is None and _names_a_model(words[0]):
        return words[0], _piped(f"{words[0]!r} names a model, and there is no prompt.")
    return named, words[0]


def _too_many(words: tuple[str, ...], named: str | None, prompt_file: Path | None) -> str:
    if len(words) > 2:
        return f"{len(words)} arguments where MODEL and PROMPT are expected; put the prompt in quotes."
    given = [text for text, is_given in (("--model", named), ("--prompt-file", prompt_file)) if is_given]
    return f"{' and '.join(given)} and {len(words)} more arguments: model or prompt is given twice."


def _piped(complaint: str) -> str:
    """Standard input, if something other than a person is at its other end."""
    if sys.stdin.isatty():
        raise click.UsageError(f"{complaint} Give it in quotes, or '-' to read it from standard input.")
    return "-"


def _names_a_model(word: str) -> bool:
    from edgespec.library.card import load_cards

    is_file = word.lower().endswith(".gguf")
    return is_file or word.startswith(_MODEL_PREFIXES) or word.lower() in {card.id for card in load_cards()}
