from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from edgespec.backend.toy import ToyModel
from edgespec.choice import DraftChoice
from edgespec.engine import Engine, Extras, GenerateOptions
from edgespec.events import RoundReport
from edgespec.server.rounds import Reasons, RoundFeed, tree_body
from edgespec.server.wire import Defaults
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import Reason
from edgespec.spec.ports import Capabilities
from tests.engine.toy_engine import EngineTarget, ToyOpened
from tests.server.serving import Running, running
from tests.server.watched import Watched
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
LIMITS = Capabilities(n_ctx=1000, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
# Few letters, so that the text repeats itself and copies come true.
FEW = SamplingSettings(banned=tuple(token for token in range(VOCAB.n_vocab) if token not in set(b"abc")))
OPTIONS = GenerateOptions(FEW, max_tokens=40)
PROMPT = "hello"
ASKED = {"prompt": PROMPT, "stream": True, "edgespec": {"rounds": True}}
A, B, C = b"abc"


def report(path: tuple[int, ...] = (0,), tokens: tuple[int, ...] = (A, C)) -> RoundReport:
    """A draft of a, then b or c beside each other."""
    sources = (*("lookup" for _ in path), "")
    return RoundReport(4, 0, 3, len(path), tokens, sources, 0.0, 0.1, 0.25, 1, (A, B, C), (-1, 0, 0), path)


def feed_of(*answers: Reasons, choice: DraftChoice = DraftChoice.AUTO) -> RoundFeed:
    left = list(answers)
    return RoundFeed(VOCAB, choice, lambda: left.pop(0) if left else None)


# -- the feed alone ---------------------------------------------------------------------------------------------


def test_a_draft_says_what_became_of_every_node() -> None:
    assert tree_body(report((0, 2), (A, C, B)), VOCAB) == {
        "nodes": [
            {"text": "a", "parent": -1, "accepted": True, "source": "lookup"},
            {"text": "b", "parent": 0, "accepted": False, "source": ""},
            {"text": "c", "parent": 0, "accepted": True, "source": "lookup"},
        ],
        "next": "b",
    }


def test_tokens_that_are_no_text_are_shown_all_the_same() -> None:
    end, half = VOCAB.special_tokens["</s>"], VOCAB.tokenize_special("\N{SNOWMAN}")[0]
    one = RoundReport(2, 0, 1, 0, (end,), ("",), 0.0, 0.1, 0.1, 1, (half,), (-1,), ())
    assert tree_body(one, VOCAB) == {
        "nodes": [{"text": "\N{REPLACEMENT CHARACTER}", "parent": -1, "accepted": False, "source": ""}],
        "next": "</s>",
    }


def test_news_come_once() -> None:
    feed = feed_of()
    assert feed.news() is None
    feed.add(report())
    feed.add(report())
    news = feed.news()
    assert news is not None
    body = json.loads(json.dumps(news))["rounds"]
    assert (body["n_passes"], body["n_tokens"], body["n_drafted"], body["n_accepted"]) == (2, 4, 6, 2)
    assert (body["tokens_per_pass"], body["tokens_per_second"]) == (2.0, 8.0)
    assert body["by_source"] == [{"source": "lookup", "n_accepted": 2}]
    assert body["by_depth"] == [{"n_tried": 2, "n_accepted": 2}, {"n_tried": 2, "n_accepted": 0}]
    assert body["last"]["next"] == "c"
    assert feed.news() is None


def test_an_answer_without_rounds_has_empty_figures() -> None:
    rounds = feed_of().whole()["rounds"]
    assert isinstance(rounds, dict)
    assert (rounds["tokens_per_pass"], rounds["tokens_per_second"], rounds["last"]) == (0.0, None, None)


def test_the_reason_is_that_of_this_answer_alone() -> None:
    before, after = {Reason.NO_MATCH: 100}, {Reason.NO_MATCH: 100, Reason.LEDGER: 2}
    said = feed_of(before, after).whole()["why"]
    assert said == "Nothing was drafted: plain decoding first had to earn what a wrong guess could lose."
    assert "edgespec tune" in str(feed_of(None, None).whole()["why"])
    assert feed_of(None, None, choice=DraftChoice.OFF).whole()["why"] == "Drafting is switched off."


def test_reports_may_come_from_another_thread() -> None:
    feed, one = feed_of(), report()

    def hand_over() -> None:
        for _ in range(20_000):
            feed.add(one)

    thread = threading.Thread(target=hand_over)
    thread.start()
    while thread.is_alive():
        feed.news()
    thread.join()
    rounds = feed.whole()["rounds"]
    assert isinstance(rounds, dict)
    assert rounds["n_passes"] == 20_000


# -- in a stream ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drafts:
    server: Running
    rounds: Watched


@pytest.fixture(scope="module")
def drafts() -> Iterator[Drafts]:
    target, rounds = EngineTarget(ToyModel(n_vocab=VOCAB.n_vocab, seed=4), LIMITS), Watched()
    with (
        Engine(ToyOpened(target), "toy", [], Extras(rounds)) as engine,
        running(engine, defaults=Defaults(OPTIONS, 0)) as server,
    ):
        yield Drafts(server, rounds)


def events_of(server: Running, body: dict[str, Any], path: str = "/v1/completions") -> list[dict[str, Any]]:
    with server.http() as http:
        response = http.post(path, json=body)
    assert response.status_code == 200, response.text
    blocks = [block.removeprefix("data: ") for block in response.text.split("\n\n") if block.startswith("data: {")]
    return [json.loads(block) for block in blocks]


def test_a_stream_tells_the_tally_of_its_rounds(drafts: Drafts) -> None:
    drafts.rounds.reports.clear()
    *_, end = events_of(drafts.server, ASKED)
    tallied = drafts.rounds.tallied()
    rounds = end["edgespec"]["rounds"]
    assert tallied.n_accepted > 5
    assert rounds["n_tokens"] == tallied.n_tokens == OPTIONS.max_tokens
    assert (rounds["n_passes"], rounds["n_drafted"]) == (tallied.n_passes, tallied.n_drafted)
    assert [one["n_accepted"] for one in rounds["by_depth"]] == [one.n_accepted for one in tallied.by_depth]
    assert tallied.last is not None
    assert rounds["last"] == tree_body(tallied.last, VOCAB)
    assert end["edgespec"]["passes"] == tallied.n_passes
    assert end["edgespec"]["why"].startswith("Suffix drafted")


@pytest.mark.parametrize(
    ("path", "prompt"),
    [("/v1/completions", {"prompt": "x"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})],
)
def test_it_grows_while_the_answer_is_made_and_carries_no_text(
    drafts: Drafts, path: str, prompt: dict[str, Any]
) -> None:
    events = events_of(drafts.server, {**prompt, "stream": True, "edgespec": {"rounds": True}}, path)
    told = [one for one in events if "rounds" in one.get("edgespec", {})]
    assert told[-1] == events[-1]
    counts = [one["edgespec"]["rounds"]["n_passes"] for one in told]
    assert counts == sorted(counts)
    for one in told[:-1]:
        (choice,) = one["choices"]
        assert choice.get("text", "") == ""
        assert choice.get("delta", {}) == {}
        assert choice["finish_reason"] is None
        assert "source" not in one["edgespec"]


def test_who_does_not_ask_is_told_nothing(drafts: Drafts) -> None:
    events = events_of(drafts.server, {"prompt": PROMPT, "stream": True})
    assert all("rounds" not in one.get("edgespec", {}) for one in events)
    assert "why" not in events[-1]["edgespec"]
    texts = [one["choices"][0]["text"] for one in events]
    assert "".join(texts) == "".join(one["choices"][0]["text"] for one in events_of(drafts.server, ASKED))


def test_only_a_stream_tells_them(drafts: Drafts) -> None:
    with drafts.server.http() as http:
        refused = http.post("/v1/completions", json={**ASKED, "stream": False})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "edgespec.rounds"
