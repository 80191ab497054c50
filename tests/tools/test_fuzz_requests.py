"""That the drawn requests are what they promise: valid, repeatable, and of every kind."""

from __future__ import annotations

import json

from edgespec.engine import GenerateOptions
from edgespec.server.fields import Fields
from edgespec.server.wire import Defaults, Wanted, parse_chat, parse_text
from tools.fuzz_requests import CHAT, DRAFTS, TEXT, Case, Maker

N_VOCAB = 448


def parsed(case: Case) -> Wanted:
    """As the server reads it; raises what it refuses."""
    body = Fields.parse(json.dumps(case.asked(case.draft, exact=True)).encode())
    return (parse_chat if case.is_chat else parse_text)(body, Defaults(GenerateOptions()))


def test_the_same_seed_draws_the_same_request() -> None:
    maker = Maker(3, N_VOCAB, scored=True)
    assert [maker.case(i) for i in range(20)] == [Maker(3, N_VOCAB, scored=True).case(i) for i in range(20)]
    assert maker.case(1) != Maker(4, N_VOCAB, scored=True).case(1)


def test_every_request_is_one_that_the_server_takes() -> None:
    for number in range(300):
        wanted = parsed(Maker(1, N_VOCAB, scored=True).case(number))
        assert wanted.options.exact
        assert 1 <= wanted.options.max_tokens <= 48


def test_together_they_use_everything() -> None:
    cases = [Maker(1, N_VOCAB, scored=True).case(number) for number in range(300)]
    assert {case.path for case in cases} == {CHAT, TEXT}
    assert {case.draft for case in cases} == set(DRAFTS)
    assert {case.stream for case in cases} == {True, False}
    assert {name for case in cases for name in case.body} >= {
        "messages", "prompt", "stop", "seed", "temperature", "top_p", "top_k", "min_p", "repeat_penalty",
        "frequency_penalty", "presence_penalty", "repeat_last_n", "logit_bias", "max_tokens", "stream_options",
        "response_format", "prediction", "logprobs", "top_logprobs",
    }  # fmt: skip


def test_log_probabilities_are_asked_for_only_where_they_are_served() -> None:
    assert not any("logprobs" in Maker(1, N_VOCAB, scored=False).case(number).body for number in range(100))


def test_how_it_is_asked_stands_beside_what_is_asked() -> None:
    case = Maker(1, N_VOCAB, scored=True).case(0)
    assert case.asked("off", exact=False) == {
        **case.body,
        "edgespec": {"draft": "off", "exact": False, "token_ids": True},
    }
