"""The engine as programs use it, over the toy; with a real file in test_opening and in the command line's tests."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgespec
from edgespec.backend.toy import ToyModel
from edgespec.engine import CancelToken, DraftChoice, Engine, GenerateOptions
from edgespec.engine.core import end_tokens
from edgespec.engine.sockets import Model
from edgespec.errors import BadInput, ContextOverflow, CorruptModel, EngineFailure, ModelNotFound
from edgespec.events import Finish, Notice, RoundReport
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, FloatArray
from edgespec.text.grammar import Grammar
from edgespec.text.messages import Message
from tests.engine.toy_engine import EngineTarget, ToyOpened, answered, done, engine_over, plain_answer
from tests.library.toy_card import toy_card
from tests.spec.plain_decoding import Asked, plain_fast
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
# Few tokens are possible anywhere, so that texts repeat themselves and lookup finds what to copy.
MODEL = ToyModel(n_vocab=VOCAB.n_vocab, order=1, masked=0.98, seed=2)
LIMITS = Capabilities(n_ctx=256, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
ENDLESS = SamplingSettings(banned=tuple(VOCAB.end_tokens))
OPTIONS = GenerateOptions(ENDLESS, max_tokens=60)
PROMPT = [VOCAB.bos or 0, *VOCAB.tokenize("the prompt")]


def target_of() -> EngineTarget:
    return EngineTarget(MODEL, LIMITS)


def test_a_toy_is_a_model_to_the_engine() -> None:
    model: Model = ToyOpened(target_of())
    with Engine(model, "toy", [Notice("code", "message")]) as engine:
        assert (engine.name, engine.settings.n_ctx, engine.header.architecture) == ("toy", 256, "toy")
        assert engine.notices == [Notice("code", "message")]


def test_a_text_is_gone_on_with_as_it_stands() -> None:
    plain = plain_fast(MODEL, Asked(tuple(PROMPT), ENDLESS, 60, VOCAB.end_tokens))
    with engine_over(target_of()) as engine:
        for draft in (DraftChoice.AUTO, DraftChoice.OFF, DraftChoice.LOOKUP):
            completion = done(engine.complete("the prompt", replace(OPTIONS, draft=draft)))
            assert answered(completion) == plain_answer(VOCAB, plain)
            assert (completion.timings.draft_n_accepted > 0) is (draft != DraftChoice.OFF)
            expected = {DraftChoice.OFF: "", DraftChoice.AUTO: "suffix", DraftChoice.LOOKUP: "lookup"}
            assert completion.timings.drafter == expected[draft]
        assert completion.usage.prompt_tokens == len(PROMPT)


def test_a_completion_keeps_no_cache() -> None:
    target = target_of()
    with engine_over(target) as engine:
        for _ in range(2):
            assert done(engine.complete("the prompt", OPTIONS)).timings.cached_prompt_tokens == 0
        done(engine.complete("x", OPTIONS))
        assert target.live() == set()


def test_a_kept_sequence_goes_on_where_it_was() -> None:
    with engine_over(target_of()) as engine:
        sequence = engine.new_sequence()
        assert engine.new_sequence() != sequence
        first = done(engine.submit(sequence, True, PROMPT, OPTIONS))
        prompt = [*PROMPT, *first.token_ids, *VOCAB.tokenize("more")]
        second = done(engine.submit(sequence, True, prompt, OPTIONS))
        assert second.timings.cached_prompt_tokens == len(PROMPT) + 59
        engine.release(sequence)
        assert done(engine.submit(sequence, True, PROMPT, OPTIONS)).timings.cached_prompt_tokens == 0


def test_a_prediction_that_comes_true_saves_passes() -> None:
    with engine_over(target_of()) as engine:
        plain = done(engine.complete("the prompt", replace(OPTIONS, draft=DraftChoice.OFF)))
        guessed = done(engine.complete("the prompt", replace(OPTIONS, draft=DraftChoice.OFF, prediction=plain.text)))
    assert answered(guessed) == answered(plain)
    assert "given" in guessed.timings.drafter
    assert guessed.timings.passes < plain.timings.passes


def log_softmax(row: FloatArray) -> list[float]:
    values = row.astype(np.float64) - float(row.max())
    logprobs: list[float] = (values - math.log(float(np.exp(values).sum()))).tolist()
    return logprobs


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("exact", [False, True])
def test_log_probabilities_are_those_of_plain_decoding(temperature: float, exact: bool) -> None:
    """Rows differ a little between the two classes of widths, so exact answers would show a draft that left its own."""
    widths = ((2, 4, 8, 16), (1, 3, 5, 6, 7, *range(9, 16)))
    model, limits = replace(MODEL, masked=0.0, order=3), replace(LIMITS, width_classes=widths)
    target = EngineTarget(model, limits, rounding=exact)
    others = tuple({*range(VOCAB.n_vocab)} - {*b"abcdefgh"})  # a text that can be written, and thereby predicted
    sampling = SamplingSettings(temperature=temperature, seed=3, top_k=6, banned=others)
    asked = GenerateOptions(sampling, max_tokens=60, exact=exact, n_top_logprobs=3)
    with engine_over(target, widths[0]) as engine:
        plain = done(engine.complete("the prompt", replace(asked, draft=DraftChoice.OFF)))
        answer = engine.complete("the prompt", replace(asked, prediction=plain.text))
        drafted = done(answer)
        cut = done(engine.complete("the prompt", replace(asked, prediction=plain.text, stop=(plain.text[20:24],))))
        unasked = done(engine.complete("the prompt", replace(asked, n_top_logprobs=None)))
    assert drafted.timings.draft_n_accepted > 20
    assert answered(drafted) == answered(plain)
    assert drafted.scores == plain.scores
    assert tuple(one for piece in answer for one in piece.scores) == plain.scores
    assert tuple(one.token_id for one in plain.scores) == plain.token_ids
    assert 0 < len(cut.scores) == len(cut.token_ids) < len(plain.scores)
    assert cut.scores == plain.scores[: len(cut.scores)]
    assert (answered(unasked), unasked.scores) == (answered(plain), ())


def test_log_probabilities_are_the_models_own_whatever_shapes_the_choice() -> None:
    sampling = SamplingSettings(
        temperature=2.0, seed=1, top_p=0.9, repeat_penalty=1.5, banned=tuple(VOCAB.end_tokens), logit_bias=((97, 2.0),)
    )
    for verify in ("path", "rejection"):
        with engine_over(target_of()) as engine:
            got = done(engine.complete("the prompt", GenerateOptions(sampling, 40, verify=verify, n_top_logprobs=2)))
        text = list(PROMPT)
        for one in got.scores:
            expected = log_softmax(MODEL.logits(text))
            assert one.logprob == pytest.approx(expected[one.token_id], abs=1e-12)
            assert one.top_logprobs[0] == pytest.approx(max(expected), abs=1e-12)
            text.append(one.token_id)
        assert len(got.scores) == 40


SHAPE = Grammar.json_schema(
    '{"type": "object", "properties": {"ok": {"type": "boolean"}, "n": {"enum": [1, 22]}}, "required": ["ok", "n"], '
    '"additionalProperties": false}'
)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("exact", [False, True])
def test_an_answer_has_the_shape_that_was_asked_for(temperature: float, exact: bool) -> None:
    """From the second answer of a sequence on, too; forced tokens save passes and change nothing."""
    asked = GenerateOptions(
        SamplingSettings(temperature=temperature, seed=5), max_tokens=60, exact=exact, grammar=SHAPE
    )
    dense = replace(MODEL, masked=0.0)  # else a token that must come may be impossible
    with engine_over(EngineTarget(dense, LIMITS), widths=(1, 2, 4, 8, 16)) as engine:
        sequence = engine.new_sequence()
        for prompt in (PROMPT, [*PROMPT, *VOCAB.tokenize("{more")]):
            plain = done(engine.submit(sequence, True, prompt, replace(asked, draft=DraftChoice.OFF)))
            drafted = done(engine.submit(sequence, True, prompt, asked))
            assert set(json.loads(plain.text)) == {"ok", "n"}
            assert plain.finish is Finish.STOP
            assert answered(drafted) == answered(plain)
            assert "forced" in drafted.timings.drafter
            assert drafted.timings.passes < plain.timings.passes


def test_answers_of_different_shapes_share_passes() -> None:
    dense = replace(MODEL, masked=0.0)
    shapes = (SHAPE, None, Grammar.lark('start: "x" /[a-c]{9}/ "y"'))
    asked = [GenerateOptions(max_tokens=30, grammar=shape) for shape in shapes]
    with engine_over(EngineTarget(dense, LIMITS)) as engine:
        alone = [answered(done(engine.complete("the prompt", one))) for one in asked]
        running = [engine.complete("the prompt", one) for one in asked]
        assert [answered(done(answer)) for answer in running] == alone


def test_a_grammar_is_made_ready_ahead_of_its_request_or_refused() -> None:
    with engine_over(target_of()) as engine:
        engine.compile(SHAPE)
        with pytest.raises(BadInput, match="foo"):
            engine.compile(Grammar.lark("start: foo"))


def test_programs_get_the_template_that_conversations_use(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("{{ messages[0].content }}!", encoding="utf-8")
    messages = [Message("user", "hi")]
    with engine_over(target_of()) as engine:
        assert engine.template().render(messages, True) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
        assert engine.template("plain").stops == ("\nUser:",)
        assert engine.template(str(path)).render(messages, True) == "hi!"
        with pytest.raises(BadInput, match="template 'none-such'"):
            engine.template("none-such")


def test_a_grammar_that_cannot_be_read_is_refused_at_once() -> None:
    with engine_over(target_of()) as engine, pytest.raises(BadInput, match="unknown name"):
        engine.complete("the prompt", replace(OPTIONS, grammar=Grammar.lark("start: foo")))


def test_the_policy_is_the_callers() -> None:
    rounds: list[RoundReport] = []
    with engine_over(target_of(), policy=FixedPolicy(max_nodes=2)) as engine:
        done(engine.submit(engine.new_sequence(), False, PROMPT, OPTIONS, on_round=rounds.append))
    assert max(report.n_drafted for report in rounds) == 2


def test_what_a_watcher_of_rounds_raises_ends_its_answer_and_no_other() -> None:
    def leave(report: RoundReport) -> None:
        raise SystemExit(f"{report.n_rows}")

    with engine_over(target_of()) as engine:
        watched = engine.submit(engine.new_sequence(), False, PROMPT, OPTIONS, on_round=leave)
        with pytest.raises(SystemExit):
            watched.completion()
        assert done(engine.submit(engine.new_sequence(), False, PROMPT, OPTIONS)).token_ids


def test_notices_come_with_the_answer() -> None:
    notice = Notice("code", "message")
    with engine_over(target_of()) as engine:
        completion = done(engine.submit(engine.new_sequence(), False, PROMPT, OPTIONS, notices=(notice,)))
    assert completion.notices == (notice,)


def test_a_token_may_be_cancelled_before() -> None:
    token = CancelToken()
    token.cancel()
    with engine_over(target_of()) as engine:
        assert done(engine.complete("the prompt", OPTIONS, cancel=token)).finish is Finish.CANCELLED


@pytest.mark.parametrize("n_over", [0, 1, 1000])
def test_a_prompt_that_cannot_fit_is_refused_at_once(n_over: int) -> None:
    with engine_over(target_of()) as engine:
        with pytest.raises(ContextOverflow, match=f"a prompt of {256 + n_over} tokens"):
            engine.complete("x" * (255 + n_over), OPTIONS)
        completion = done(engine.complete("x" * 254, OPTIONS))
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (255, 1)
    assert completion.finish is Finish.LENGTH


def test_what_the_model_cannot_take_is_refused_at_once() -> None:
    with engine_over(target_of()) as engine:
        for prompt in ([], [VOCAB.n_vocab], [-1]):
            with pytest.raises(BadInput):
                engine.submit(engine.new_sequence(), False, prompt, OPTIONS)
        with pytest.raises(BadInput, match="the vocabulary ends at"):
            engine.complete("x", GenerateOptions(SamplingSettings(banned=(10**6,))))


def test_a_closed_engine_refuses() -> None:
    engine = Engine(ToyOpened(target_of()), "toy", [])
    answer = engine.complete("the prompt", replace(OPTIONS, max_tokens=10**6))
    engine.close()
    engine.close()
    with pytest.raises(EngineFailure, match="the engine was closed"):
        done(answer)
    with pytest.raises(EngineFailure, match="has been closed"):
        engine.complete("the prompt", OPTIONS)
    engine.release(0)


def test_a_model_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")
    with pytest.raises(ModelNotFound):
        edgespec.Engine.open(tmp_path / "missing.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing more")
    with pytest.raises(CorruptModel):
        edgespec.Engine.open(broken)


def test_a_card_adds_its_template_its_stops_and_its_end_tokens() -> None:
    card = replace(
        toy_card(b"x"),
        chat_template="{% for message in messages %}[{{ message.content }}]{% endfor %}",
        stop_strings=("]",),
        end_tokens=("<|im_start|>", "no such token"),
    )
    assert end_tokens(VOCAB, None) == VOCAB.end_tokens
    assert end_tokens(VOCAB, card) == VOCAB.end_tokens | {VOCAB.special_tokens["<|im_start|>"]}
    target = target_of()
    with Engine(ToyOpened(target), "toy", [], card=card) as engine, engine.conversation() as chat:
        completion = chat.say("hi", OPTIONS).completion()
        assert completion.usage.prompt_tokens == len([VOCAB.bos, *VOCAB.tokenize("[hi]")])
        assert "]" not in completion.text
