"""From a request's JSON to what it wants: OpenAI's parameters, llama.cpp's samplers, and an `edgespec` object.

Contract: every parameter is obeyed, refused by name, or listed here as one that cannot change an answer. Knows no
engine: whether what is wanted can be served is asked elsewhere.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace

from edgespec.choice import DraftChoice
from edgespec.engine import GenerateOptions
from edgespec.errors import BadInput
from edgespec.server.fields import Fields, kind_of
from edgespec.server.messages import content_text, parse_messages
from edgespec.server.refusals import unsupported
from edgespec.text.grammar import Grammar
from edgespec.text.template import Message

# Drawn seeds stay short enough to be typed again.
DRAWN_SEED_BITS = 32
# More are no use, and each costs time at every character.
MAX_STOPS = 16
MAX_TOP_LOGPROBS = 20

_SHARED = (
    "model", "stream", "stream_options", "max_tokens", "temperature", "top_p", "n", "stop", "seed", "presence_penalty",
    "frequency_penalty", "logit_bias", "logprobs", "prediction", "edgespec", "top_k", "min_p", "repeat_penalty",
    "repeat_last_n",
)  # fmt: skip
_CHAT = ("messages", "max_completion_tokens", "top_logprobs", "response_format", "tools", "tool_choice")
_TEXT = ("prompt", "best_of", "echo", "suffix")
# About accounts, caches and how much a reasoning model thinks: whatever their value, the answer is the same.
_WITHOUT_EFFECT = (
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "parallel_tool_calls", "reasoning_effort", "verbosity",
)  # fmt: skip
_REFUSED = {
    "audio": "there is no sound", "modalities": "there is text only", "functions": "tools are not served",
    "function_call": "tools are not served", "web_search_options": "there is no network",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a request says nothing. seed None: one is drawn for every answer."""

    options: GenerateOptions
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. parameters: a JSON schema as text."""

    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True)
class Chat:
    messages: tuple[Message, ...]


# A chat, a text to go on with, or the tokens of one.
Prompt = Chat | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request. include_usage: at the end of a stream. n_top_logprobs: None for no log probabilities at all, 0 for
    those of the chosen tokens only.
    """

    prompt: Prompt
    options: GenerateOptions
    stream: bool = False
    include_usage: bool = False
    n_top_logprobs: int | None = None
    tools: tuple[Tool, ...] = ()

    @property
    def is_chat(self) -> bool:
        return isinstance(self.prompt, Chat)


def parse_chat(request: Fields, defaults: Defaults) -> Wanted:
    """Of /v1/chat/completions. Raises Refusal and BadInput."""
    _known(request, _CHAT)
    wanted = _shared(request, Chat(parse_messages(request)), defaults)
    n_top = request.whole("top_logprobs", 0)
    if not 0 <= n_top <= MAX_TOP_LOGPROBS:
        raise request.refuse("top_logprobs", f"it is {n_top}", f"give 0 to {MAX_TOP_LOGPROBS}")
    asked = request.flag("logprobs", False)
    if request.has("top_logprobs") and n_top and not asked:
        raise request.refuse("top_logprobs", "logprobs is not true", "set logprobs to true")
    grammar = _grammar(request.inner("response_format")) or wanted.options.grammar
    options = replace(wanted.options, grammar=grammar)
    return replace(wanted, options=options, n_top_logprobs=n_top if asked else None, tools=_tools(request))


def parse_text(request: Fields, defaults: Defaults) -> Wanted:
    """Of /v1/completions. Raises Refusal and BadInput."""
    _known(request, _TEXT)
    for name, neutral in (("echo", False), ("suffix", ""), ("best_of", 1)):
        if request.has(name) and request.value(name) != neutral:
            raise unsupported(name, "it is not served", "leave it out", name)
    n_top = request.whole("logprobs", -1)
    if not -1 <= n_top <= MAX_TOP_LOGPROBS:
        raise request.refuse("logprobs", f"it is {n_top}", f"give 0 to {MAX_TOP_LOGPROBS}")
    wanted = _shared(request, _text_prompt(request), defaults)
    return replace(wanted, n_top_logprobs=n_top if n_top >= 0 else None)


def _known(request: Fields, own: tuple[str, ...]) -> None:
    for name, why in _REFUSED.items():
        if request.has(name) and not (name == "modalities" and request.value(name) == ["text"]):
            raise unsupported(name, why, "leave it out", name)
    request.only((*_SHARED, *own, *_WITHOUT_EFFECT, *_REFUSED))


def _shared(request: Fields, prompt: Prompt, defaults: Defaults) -> Wanted:
    request.text("model", "")
    if request.whole("n", 1) != 1:
        raise unsupported("n", "one answer is made at a time", "set it to 1, and ask several times", "n")
    stream_options = request.inner("stream_options")
    stream_options.only(("include_usage", "include_obfuscation"))
    stream = request.flag("stream", False)
    return Wanted(prompt, _options(request, defaults), stream, stream_options.flag("include_usage", False))


def _options(request: Fields, defaults: Defaults) -> GenerateOptions:
    usual = defaults.options
    sampling = usual.sampling
    own = request.inner("edgespec")
    own.only(("draft", "exact", "verify"))
    stop = (*request.texts("stop"), *usual.stop)
    if len(stop) > MAX_STOPS:
        raise request.refuse("stop", f"there are {len(stop)}", f"give at most {MAX_STOPS}")
    most = request.whole("max_tokens", usual.max_tokens)
    draft = own.text("draft", usual.draft.value)
    return replace(
        usual,
        sampling=replace(
            sampling,
            temperature=request.number("temperature", sampling.temperature),
            top_p=request.number("top_p", sampling.top_p),
            top_k=request.whole("top_k", sampling.top_k),
            min_p=request.number("min_p", sampling.min_p),
            repeat_penalty=request.number("repeat_penalty", sampling.repeat_penalty),
            frequency_penalty=request.number("frequency_penalty", sampling.frequency_penalty),
            presence_penalty=request.number("presence_penalty", sampling.presence_penalty),
            penalty_last_n=request.whole("repeat_last_n", sampling.penalty_last_n),
            logit_bias=request.whole_keyed("logit_bias") or sampling.logit_bias,
            seed=_seed(request, defaults.seed),
        ),
        max_tokens=_at_least_one(request, request.whole("max_completion_tokens", most)),
        stop=stop,
        exact=own.flag("exact", usual.exact),
        verify=own.text("verify", usual.verify),
        draft=_draft(own, draft),
        prediction=_prediction(request) or usual.prediction,
    )


def _at_least_one(request: Fields, n_tokens: int) -> int:
    if n_tokens < 1:
        name = "max_completion_tokens" if request.has("max_completion_tokens") else "max_tokens"
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
    prediction.only(("type", "content"))
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
    form.only(("type", "json_schema"))
    kind = form.text("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return Grammar.json_object()
    if kind != "json_schema":
        raise form.refuse("type", f"there is no {kind[:40]!r}", "give text, json_object or json_schema")
    named = form.inner("json_schema")
    named.only(("name", "description", "schema", "strict"))
    if not isinstance(named.value("schema"), dict):
        raise named.refuse("schema", f"it is {kind_of(named.value('schema'))}", "give a JSON schema")
    return Grammar.json_schema(_json_text(named, "schema"), f"the JSON schema {named.text('name')!r}")


def _json_text(fields: Fields, name: str) -> str:
    try:
        return json.dumps(fields.value(name) or {})
    except RecursionError:
        raise fields.refuse(name, "it is nested too deeply", "give a simpler one") from None


def _tools(request: Fields) -> tuple[Tool, ...]:
    tools = tuple(_tool(fields) for fields in request.objects("tools"))
    choice = request.value("tool_choice")
    if choice not in (None, "none", "auto", "required") and not isinstance(choice, dict):
        raise request.refuse("tool_choice", f"it is {kind_of(choice)}", "give none, auto, required or a function")
    return () if choice == "none" else tools


def _tool(fields: Fields) -> Tool:
    if fields.text("type") != "function":
        raise unsupported(fields.path("type"), "the only tools are functions", "set it to 'function'", "tools")
    function = fields.inner("function")
    return Tool(function.text("name"), function.text("description", ""), _json_text(function, "parameters"))


def refuse_unserved(wanted: Wanted) -> None:
    """Raises Refusal for what the API has and the engine cannot give."""
    if wanted.n_top_logprobs is not None:
        raise unsupported("logprobs", "log probabilities are not served", "leave it out", "logprobs")
    if wanted.tools:
        raise unsupported("tools", "tools are not served", "leave them out, or set tool_choice to 'none'", "tools")
