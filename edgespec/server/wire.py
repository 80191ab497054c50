"""From a request's JSON to what it wants: OpenAI's parameters, llama.cpp's samplers, and an `edgespec` object.

Contract: every parameter is obeyed, refused by name, or one of those that cannot change an answer. Knows no
engine: whether what is wanted can be served is asked elsewhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace

from edgespec.choice import DraftChoice
from edgespec.engine import GenerateOptions
from edgespec.engine.options import MAX_TOP_LOGPROBS
from edgespec.errors import BadInput
from edgespec.server import parameters
from edgespec.server.fields import Fields, kind_of
from edgespec.server.messages import content_text, parse_messages
from edgespec.server.refusals import Refusal, unsupported
from edgespec.server.tools import NO_TOOLS, ToolUse, json_text, parse_tools
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ratio import PATH, VERIFIER_NAMES
from edgespec.text.grammar import Grammar
from edgespec.text.template import Message

# Drawn seeds stay short enough to be typed again.
DRAWN_SEED_BITS = 32


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a request says nothing. seed None: one is drawn for every answer."""

    options: GenerateOptions
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Chat:
    messages: tuple[Message, ...]


# A chat, a text to go on with, or the tokens of one.
Prompt = Chat | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request. include_usage: at the end of a stream. rounds: the stream tells what comes of the drafts. token_ids:
    the reply tells those of the answer.
    """

    prompt: Prompt
    options: GenerateOptions
    stream: bool = False
    include_usage: bool = False
    tools: ToolUse = NO_TOOLS
    rounds: bool = False
    token_ids: bool = False

    @property
    def n_top_logprobs(self) -> int | None:
        """None for no log probabilities at all, 0 for those of the chosen tokens only."""
        return self.options.n_top_logprobs

    @property
    def is_chat(self) -> bool:
        return isinstance(self.prompt, Chat)


def parse_chat(request: Fields, defaults: Defaults) -> Wanted:
    """Of /v1/chat/completions. Raises Refusal and BadInput."""
    _known(request, parameters.CHAT)
    wanted = _shared(request, Chat(parse_messages(request)), defaults)
    n_top = request.whole("top_logprobs", 0)
    if not 0 <= n_top <= MAX_TOP_LOGPROBS:
        raise request.refuse("top_logprobs", f"it is {n_top}", f"give 0 to {MAX_TOP_LOGPROBS}")
    asked = request.flag("logprobs", False)
    if request.has("top_logprobs") and n_top and not asked:
        raise request.refuse("top_logprobs", "logprobs is not true", "set logprobs to true")
    grammar = _grammar(request.inner("response_format")) or wanted.options.grammar
    options = replace(wanted.options, grammar=grammar, n_top_logprobs=n_top if asked else None)
    return replace(wanted, options=options, tools=parse_tools(request))


def parse_text(request: Fields, defaults: Defaults) -> Wanted:
    """Of /v1/completions. Raises Refusal and BadInput."""
    _known(request, parameters.TEXT)
    for name, neutral in (("echo", False), ("suffix", ""), ("best_of", 1)):
        value = request.value(name)
        if value is not None and (value != neutral or type(value) is not type(neutral)):
            raise unsupported(name, "it is not served", "leave it out", name)
    n_top = request.whole("logprobs", -1)
    if not -1 <= n_top <= MAX_TOP_LOGPROBS:
        raise request.refuse("logprobs", f"it is {n_top}", f"give 0 to {MAX_TOP_LOGPROBS}")
    wanted = _shared(request, _text_prompt(request), defaults)
    return replace(wanted, options=replace(wanted.options, n_top_logprobs=n_top if n_top >= 0 else None))


def _known(request: Fields, own: Collection[str]) -> None:
    for name, why in parameters.REFUSED.items():
        if request.has(name) and not (name == "modalities" and request.value(name) == ["text"]):
            raise unsupported(name, why, "leave it out", name)
    request.only((*parameters.SHARED, *own, *parameters.NO_EFFECT, *parameters.REFUSED))


def _shared(request: Fields, prompt: Prompt, defaults: Defaults) -> Wanted:
    request.text("model", "")
    if request.whole("n", 1) != 1:
        raise unsupported("n", "one answer is made at a time", "set it to 1, and ask several times", "n")
    stream_options = request.inner("stream_options")
    stream_options.only(parameters.STREAM_OPTIONS)
    stream = request.flag("stream", False)
    own = request.inner("edgespec")
    rounds = own.flag("rounds", False)
    if rounds and not stream:
        raise own.refuse("rounds", "only a stream tells them", "set stream to true")
    include_usage = stream_options.flag("include_usage", False)
    token_ids = own.flag("token_ids", False)
    return Wanted(prompt, _options(request, defaults), stream, include_usage, rounds=rounds, token_ids=token_ids)


def _options(request: Fields, defaults: Defaults) -> GenerateOptions:
    usual = defaults.options
    own = request.inner("edgespec")
    own.only(parameters.OWN)
    most = _at_least_one(request, "max_tokens", usual.max_tokens)
    draft = own.text("draft", usual.draft.value)
    return replace(
        usual,
        sampling=_sampling(request, defaults),
        max_tokens=_at_least_one(request, "max_completion_tokens", most),
        stop=(*_stops(request), *usual.stop),
        exact=own.flag("exact", usual.exact),
        verify=_verifier(own, usual),
        draft=_draft(own, draft),
        prediction=_prediction(request) or usual.prediction,
    )


def _sampling(request: Fields, defaults: Defaults) -> SamplingSettings:
    usual = defaults.options.sampling
    try:
        return replace(
            usual,
            temperature=request.number("temperature", usual.temperature),
            top_p=request.number("top_p", usual.top_p),
            top_k=request.whole("top_k", usual.top_k),
            min_p=request.number("min_p", usual.min_p),
            repeat_penalty=request.number("repeat_penalty", usual.repeat_penalty),
            frequency_penalty=request.number("frequency_penalty", usual.frequency_penalty),
            presence_penalty=request.number("presence_penalty", usual.presence_penalty),
            penalty_last_n=request.whole("repeat_last_n", usual.penalty_last_n),
            logit_bias=request.whole_keyed("logit_bias") or usual.logit_bias,
            seed=_seed(request, defaults.seed),
        )
    except BadInput as error:  # it begins with the name of the field
        what = error.what.replace("penalty_last_n", "repeat_last_n")
        name = what.partition(" ")[0]
        raise Refusal(what, error.why, error.remedy, code="invalid_value", param=name) from None


def _stops(request: Fields) -> tuple[str, ...]:
    stops = request.texts("stop")
    if len(stops) > parameters.MAX_STOPS:
        raise request.refuse("stop", f"there are {len(stops)}", f"give at most {parameters.MAX_STOPS}")
    if "" in stops:
        raise request.refuse("stop", "an empty text would end every answer before it begins", "leave it out")
    if any(len(stop) > parameters.MAX_STOP_CHARACTERS for stop in stops):
        most = parameters.MAX_STOP_CHARACTERS
        raise request.refuse("stop", f"it is longer than {most} characters", "give the beginning of it")
    return stops


def _verifier(own: Fields, usual: GenerateOptions) -> str:
    name = own.text("verify", usual.verify)
    if name not in VERIFIER_NAMES:
        raise own.refuse("verify", f"there is no {name[:40]!r}", f"give one of {', '.join(VERIFIER_NAMES)}")
    if own.flag("exact", usual.exact) and name != PATH:
        raise own.refuse("verify", f"with {name!r} no answer is exact", f"give {PATH!r}, or leave exact out")
    return name


def _at_least_one(request: Fields, name: str, usual: int) -> int:
    n_tokens = request.whole(name, usual)
    if n_tokens < 1:
        raise request.refuse(name, f"it is {n_tokens}", "give at least 1")
    return n_tokens


def _draft(own: Fields, text: str) -> DraftChoice:
    try:
        return DraftChoice.parse(text)
    except BadInput as error:
        raise own.refuse("draft", error.why, error.remedy) from None


def _seed(request: Fields, usual: int | None) -> int:
    """The API's seeds are signed; ours are the same 64 bits without a sign."""
    if not request.has("seed"):
        return secrets.randbits(DRAWN_SEED_BITS) if usual is None else usual
    seed = request.whole("seed", 0)
    if not -(2**63) <= seed < 2**64:
        raise request.refuse("seed", "it has more than 64 bits", "give a smaller number")
    return seed % 2**64


def _prediction(request: Fields) -> str:
    if not request.has("prediction"):
        return ""
    prediction = request.inner("prediction")
    prediction.only(parameters.PREDICTION)
    if prediction.text("type") != "content":
        raise prediction.refuse("type", "the only kind is 'content'", "set it to 'content'")
    return content_text(prediction, "content")


def _text_prompt(request: Fields) -> str | tuple[int, ...]:
    prompt = request.value("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):  # a batch of one
        prompt = prompt[0]
    if not isinstance(prompt, list):
        return Fields({"prompt": prompt}).text("prompt")
    tokens = []
    for i, token in enumerate(prompt):
        if not isinstance(token, int) or isinstance(token, bool):
            if isinstance(token, (str, list)):
                raise unsupported("prompt", "one prompt is answered at a time", "ask several times", "prompt")
            raise request.refuse(f"prompt[{i}]", f"it is {kind_of(token)}", "give a text, or numbers of tokens")
        tokens.append(token)
    return tuple(tokens)


def _grammar(form: Fields) -> Grammar | None:
    form.only(parameters.RESPONSE_FORMAT)
    kind = form.text("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return Grammar.json_object()
    if kind != "json_schema":
        raise form.refuse("type", f"there is no {kind[:40]!r}", "give text, json_object or json_schema")
    named = form.inner("json_schema")
    named.only(parameters.JSON_SCHEMA)
    if not isinstance(named.value("schema"), dict):
        raise named.refuse("schema", f"it is {kind_of(named.value('schema'))}", "give a JSON schema")
    return Grammar.json_schema(json_text(named, "schema"), f"the JSON schema {named.text('name')!r}")
