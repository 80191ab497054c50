"""What flows out of the engine while an answer is made. Plain frozen data; knows no model, no terminal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Finish(str, Enum):
    """Why an answer ended. The values are those of the OpenAI API, and `cancelled`."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token of an answer with its log probability: the natural logarithm, under the softmax of the model's own
    logits, before temperature and all else that shapes the choice.

    top_ids, top_logprobs: the likeliest tokens in its place, best first, the lower id first among equals.
    """

    token_id: int
    logprob: float
    top_ids: tuple[int, ...] = ()
    top_logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A bit of answer text that is final: it is never taken back.

    `source` is the name of the drafter whose guess the target accepted, or "" when the target said it unprompted.
    `token_ids` are the tokens that this piece completed; it may be empty when only held-back text was released.
    `scores` are theirs, one each, if log probabilities were asked for.
    """

    text: str
    token_ids: tuple[int, ...]
    source: str
    scores: tuple[TokenScore, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """One line the user should see once: a step down, a re-read, a dropped turn. `code` is stable, for programs."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One round of one sequence. Seconds are wall time; `n_rows` counts pending tokens, nodes and padding.

    n_pending: committed tokens that the pass read first. tree_tokens and tree_parents: the verified draft, a parent -1
    being the last committed token. path: the accepted nodes; token i was decided by the row of node path[i - 1], the
    first one by that of the last committed token.
    """

    n_rows: int
    n_padded: int
    n_drafted: int
    n_accepted: int
    tokens: tuple[int, ...]
    sources: tuple[str, ...]
    propose_seconds: float
    verify_seconds: float
    seconds: float
    n_pending: int = 1
    tree_tokens: tuple[int, ...] = ()
    tree_parents: tuple[int, ...] = ()
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """`passes` counts target passes after the prompt; `drafter` names those that had a guess accepted, "+"-joined.
    plain_seconds: what decoding would have taken without drafting, at the prices measured meanwhile; 0 if unmeasured.
    n_emitted: what the passes gave, an end token and what a stop string cut off included.
    """

    prompt_seconds: float
    decode_seconds: float
    first_token_seconds: float
    tokens_per_second: float
    passes: int
    draft_n: int
    draft_n_accepted: int
    drafter: str
    exact: bool
    width_class: tuple[int, ...]
    padded_rows: int
    cached_prompt_tokens: int
    seed: int
    plain_seconds: float = 0.0
    n_emitted: int = 0

    @property
    def tokens_per_pass(self) -> float:
        return self.n_emitted / self.passes if self.passes else 0.0


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer. `token_ids` is the shortest prefix of the generated tokens whose text contains `text`;
    without a stop string that is all of them. `scores`: one for each, if log probabilities were asked for."""

    text: str
    token_ids: tuple[int, ...]
    finish: Finish
    usage: Usage
    timings: Timings
    notices: tuple[Notice, ...]
    scores: tuple[TokenScore, ...] = ()
