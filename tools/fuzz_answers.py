"""What the server sent for a request, streamed or whole, in one form; and what of it must be equal, or must agree.

Contract: plain functions of bytes. `differences` compares two answers to one request; `contradictions` looks at one
answer alone. Both return sentences, none when all is well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

JsonObject = dict[str, object]
Piece = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Scored:
    """A token with its log probability. spelled: its bytes; b"" where the server gives none. top: the alternatives,
    without any of their own.
    """

    name: str
    spelled: bytes
    logprob: float
    top: tuple[Scored, ...] = ()

    def reads_like(self, other: Scored) -> bool:
        return (self.name, self.spelled) == (other.name, other.spelled)


@dataclass(frozen=True, slots=True)
class Answered:
    """ids: of its tokens, as they were told. n_streamed: tokens that the events of a stream say they carry; None of an
    answer that was sent whole. refused: the error's message; then there is no answer.
    """

    text: str = ""
    ids: tuple[int, ...] = ()
    finish: str = ""
    usage: tuple[tuple[str, int], ...] = ()
    scores: tuple[Scored, ...] = ()
    scored: bool = False
    n_streamed: int | None = None
    refused: str = ""

    @property
    def n_tokens(self) -> int:
        return dict(self.usage).get("completion_tokens", 0)


def whole(body: bytes) -> Answered:
    """Of a response that was not streamed."""
    value = json.loads(body)
    if "error" in value:
        return Answered(refused=value["error"]["message"])
    read = _Reader()
    read.choice(value["choices"][0])
    read.details(value["edgespec"])
    return read.answered(_usage(value["usage"]), None)


def streamed(lines: Iterable[str]) -> Answered:
    """Of server-sent events. A stream that breaks off without its end mark counts as refused."""
    read, n_streamed, ended = _Reader(), 0, False
    usage: tuple[tuple[str, int], ...] = ()
    for line in lines:
        data = line.removeprefix("data: ")
        if data == line or ended:
            continue
        ended = data == "[DONE]"
        value = {} if ended else json.loads(data)
        if "error" in value:
            return Answered(refused=value["error"]["message"])
        n_streamed += value.get("edgespec", {}).get("n_tokens", 0)
        read.details(value.get("edgespec", {}))
        for choice in value.get("choices", []):
            read.choice(choice)
        usage = _usage(value["usage"]) if value.get("usage") else usage
    return read.answered(usage, n_streamed) if ended else Answered(refused="the stream broke off")


@dataclass(slots=True)
class _Reader:
    """Joins the choices of a stream; a whole answer has one."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    finish: str = ""
    scores: list[Scored] = field(default_factory=list)
    scored: bool = False

    def choice(self, choice: dict[str, JsonObject]) -> None:
        said = choice.get("message") or choice.get("delta") or choice
        self.text += str(said.get("content") or said.get("text") or "")
        self.finish = str(choice.get("finish_reason") or self.finish)
        logprobs = choice.get("logprobs")
        if logprobs is not None:
            self.scored = True
            self.scores += _chat_scores(logprobs) if "content" in logprobs else _text_scores(logprobs)

    def details(self, told: dict[str, list[int]]) -> None:
        self.ids += told.get("token_ids", [])

    def answered(self, usage: tuple[tuple[str, int], ...], n_streamed: int | None) -> Answered:
        return Answered(self.text, tuple(self.ids), self.finish, usage, tuple(self.scores), self.scored, n_streamed)


def _usage(usage: JsonObject) -> tuple[tuple[str, int], ...]:
    """All counts, also those of nested objects, by name."""
    counts: dict[str, int] = {}
    for name, value in usage.items():
        if isinstance(value, dict):
            counts.update({f"{name}.{inner}": int(n) for inner, n in value.items()})
        elif isinstance(value, int):
            counts[name] = value
    return tuple(sorted(counts.items()))


def _chat_scores(logprobs: JsonObject) -> list[Scored]:
    content = logprobs["content"]
    assert isinstance(content, list)
    return [_chat_score(one, tuple(_chat_score(top) for top in one["top_logprobs"])) for one in content]


def _chat_score(one: dict[str, object], top: tuple[Scored, ...] = ()) -> Scored:
    spelled, logprob = one["bytes"], one["logprob"]
    assert isinstance(logprob, float)
    return Scored(str(one["token"]), bytes(spelled) if isinstance(spelled, list) else b"", logprob, top)


def _text_scores(logprobs: JsonObject) -> list[Scored]:
    """That API spells tokens as text only."""
    tokens, values, tops = (logprobs[name] for name in ("tokens", "token_logprobs", "top_logprobs"))
    assert isinstance(tokens, list)
    assert isinstance(values, list)
    assert isinstance(tops, list)
    return [
        Scored(token, b"", value, tuple(Scored(name, b"", other) for name, other in (top or {}).items()))
        for token, value, top in zip(tokens, values, tops, strict=True)
    ]


def differences(one: Answered, other: Answered) -> list[str]:
    """Everything that must be equal between two exact answers to one request. A stream against a stream."""
    if one.refused or other.refused:
        return [] if one.refused == other.refused else [f"refused: {one.refused!r} / {other.refused!r}"]
    pairs: tuple[tuple[str, object, object], ...] = (
        ("text", one.text, other.text),
        ("ids", one.ids, other.ids),
        ("finish reason", one.finish, other.finish),
        ("usage", one.usage, other.usage),
        ("log probabilities", one.scores, other.scores),
        ("scored", one.scored, other.scored),
        ("streamed tokens", one.n_streamed, other.n_streamed),
    )
    return [f"{name}: {left!r} / {right!r}" for name, left, right in pairs if left != right]


def contradictions(one: Answered, ids: Sequence[int], piece: Piece, cut_by_stop: bool) -> list[str]:
    """Where text, ids, log probabilities and counts of one answer do not say the same. ids: the engine's own. piece: a
    token's bytes. cut_by_stop: a stop string may have ended it, so that the last token may hold more than the text.
    """
    if one.refused:
        return []
    found = _text_against_ids(one, ids, piece, cut_by_stop)
    if one.ids != tuple(ids):
        found.append(f"the client was told the ids {one.ids}, the engine made {tuple(ids)}")
    if one.n_tokens != len(ids):
        found.append(f"usage says {one.n_tokens} tokens and there are {len(ids)}")
    if one.scored and len(one.scores) != len(ids):
        found.append(f"{len(one.scores)} log probabilities for {len(ids)} tokens")
    elif one.scored:
        found += _scores_against_ids(one, ids, piece)
    return found


def _text_against_ids(one: Answered, ids: Sequence[int], piece: Piece, cut_by_stop: bool) -> list[str]:
    spelled = b"".join(map(piece, ids)).decode("utf-8", "replace")
    if one.text == spelled:
        return []
    if not cut_by_stop or not spelled.startswith(one.text):
        return [f"the ids spell {spelled!r} and the text is {one.text!r}"]
    shorter = b"".join(map(piece, ids[:-1])).decode("utf-8", "replace")
    if len(shorter) >= len(one.text) and shorter.startswith(one.text):
        return [f"a token more than the text {one.text!r} needs: {spelled!r}"]
    return []


def _scores_against_ids(one: Answered, ids: Sequence[int], piece: Piece) -> list[str]:
    found = []
    for number, (token, score) in enumerate(zip(ids, one.scores, strict=True)):
        spelled = piece(token)
        name = spelled.decode("utf-8", "replace")
        if score.spelled != spelled if score.spelled else spelled and score.name != name:
            found.append(f"token {number} is {spelled!r} and its log probability that of {score.name!r}")
        if score.logprob > 0.0:
            found.append(f"token {number} has the log probability {score.logprob}")
        if score.top and not _fits(score):
            found.append(f"token {number}: {score.logprob} stands against {score.top}")
    return found


def _fits(score: Scored) -> bool:
    """The alternatives are the likeliest tokens, so none that is not among them is likelier, and the token itself has
    one value only; of tokens that read the same the likeliest counts.
    """
    same = [other.logprob for other in score.top if score.reads_like(other)]
    return score.logprob <= max(other.logprob for other in score.top) and (not same or score.logprob <= max(same))
