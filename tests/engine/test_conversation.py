"""Chats with the whole engine over the toy: what is said, read, reused, dropped, taken back and lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from edgespec.backend.toy import ToyModel
from edgespec.engine import Conversation, DraftChoice, Engine, GenerateOptions
from edgespec.engine.conversation import without_oldest_turn
from edgespec.errors import BadInput, ContextOverflow, EngineFailure
from edgespec.events import Completion, Finish
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import Capabilities
from edgespec.text.template import BUILTIN, ChatTemplate, Message
from tests.engine.toy_engine import EngineTarget, Gate, Pass, answered, done, engine_over, said
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
N_VOCAB = VOCAB.n_vocab
MODEL = ToyModel(n_vocab=N_VOCAB, seed=4)
LIMITS = Capabilities(n_ctx=1000, n_vocab=N_VOCAB, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
WIDTHS = (2, 4, 8, 16)
ENDLESS = SamplingSettings(banned=tuple(VOCAB.end_tokens))
SHORT = GenerateOptions(ENDLESS, max_tokens=12)
# Tokens of "<|im_end|>\n<|im_start|>user\n" and so on, around a question that follows an answer.
QUESTION = len(VOCAB.tokenize_special("<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"))


def target_of(limits: Capabilities = LIMITS, window: int = 0, rounding: bool = False) -> EngineTarget:
    return EngineTarget(MODEL, limits, window, rounding)


def roles(chat: Conversation) -> str:
    return "".join(message.role[0] for message in chat.messages)


def fails(one: Pass) -> None:
    raise EngineFailure("a pass", f"{one.width} rows broke it", "try again")


# -- turns --------------------------------------------------------------------------------------------------------


def test_every_turn_reads_only_what_is_new() -> None:
    target = target_of()
    with engine_over(target) as engine, engine.conversation() as chat:
        n_said = 0
        for _ in range(4):
            n_before = target.n_extended
            completion = done(chat.say("hello", SHORT))
            # All that was said before but the last token of the last answer, which was never read.
            assert completion.timings.cached_prompt_tokens == max(0, n_said - 1)
            n_prompt = completion.usage.prompt_tokens
            assert target.n_extended - n_before == n_prompt - 1 - max(0, n_said - 1)
            n_said = n_prompt + 12
    assert roles(chat) == "uaua" * 2


def test_the_model_sees_the_tokens_it_said() -> None:
    # Random bytes are seldom text; encoded anew, these answers would be other tokens.
    with engine_over(target_of()) as engine, engine.conversation("be brief") as chat:
        first = done(chat.say("hello", SHORT))
        second = done(chat.say("and then", SHORT))
        assert VOCAB.tokenize(first.text) != list(first.token_ids)
        n_more = QUESTION + len(VOCAB.tokenize("and then"))
        assert second.usage.prompt_tokens == first.usage.prompt_tokens + 12 + n_more
    assert chat.messages == (
        Message("system", "be brief"),
        Message("user", "hello"),
        Message("assistant", first.text),
        Message("user", "and then"),
        Message("assistant", second.text),
    )


def test_an_end_token_ends_the_turn() -> None:
    ending = GenerateOptions(SamplingSettings(logit_bias=tuple((token, 100.0) for token in VOCAB.end_tokens)))
    with engine_over(target_of()) as engine, engine.conversation() as chat:
        completion = done(chat.say("hello", ending))
        assert (completion.text, completion.token_ids, completion.finish) == ("", (), Finish.STOP)
        again = done(chat.say("hello", SHORT))
        # Whether the model says its end token or the template writes it, it is read once.
        assert again.timings.cached_prompt_tokens >= completion.usage.prompt_tokens


def test_a_templates_own_stop_strings_end_an_answer_too() -> None:
    template = ChatTemplate(BUILTIN["chatml"].source, "", "", stops=("aaa",))
    always_a = GenerateOptions(SamplingSettings(logit_bias=((ord("a"), 100.0),)), stop=("never",))
    with engine_over(target_of()) as engine:
        completion = done(Conversation(engine, template).say("hello", always_a))
    assert (completion.text, completion.finish) == ("", Finish.STOP)


def test_the_next_question_waits_for_the_answer_before() -> None:
    with engine_over(target_of()) as engine, engine.conversation() as chat:
        first = chat.say("hello", GenerateOptions(ENDLESS, max_tokens=60))
        second = chat.say("and then", SHORT)
        assert first.wait(timeout_seconds=0.0)
        assert done(second).usage.prompt_tokens > 60
        assert said(first) == chat.messages[1].content  # no piece was taken away


# -- going back ---------------------------------------------------------------------------------------------------


def test_undo_takes_a_turn_back_and_what_stays_is_not_read_again() -> None:
    with engine_over(target_of()) as engine, engine.conversation() as chat:
        first = done(chat.say("hello", SHORT))
        done(chat.say("and then", SHORT))
        assert chat.undo() == Message("user", "and then")
        assert roles(chat) == "ua"
        other = done(chat.say("or else", SHORT))
        n_shared = len(VOCAB.tokenize_special("<|im_end|>\n<|im_start|>user\n"))
        assert other.timings.cached_prompt_tokens == first.usage.prompt_tokens + 12 + n_shared
        fresh = engine.conversation()
        done(fresh.say("hello", SHORT))
        assert answered(done(fresh.say("or else", SHORT))) == answered(other)


def test_the_same_question_again_reads_nothing_and_gets_the_same_answer() -> None:
    target = target_of()
    with engine_over(target) as engine, engine.conversation() as chat:
        done(chat.say("hello", SHORT))
        before = done(chat.say("and then", SHORT))
        n_read = target.n_extended
        chat.undo()
        again = done(chat.say("and then", SHORT))
        assert target.n_extended == n_read
    assert answered(again) == answered(before)
    assert again.timings.cached_prompt_tokens == again.usage.prompt_tokens - 1


def test_there_is_an_end_to_undo() -> None:
    with engine_over(target_of()) as engine, engine.conversation("be brief") as chat:
        done(chat.say("hello", SHORT))
        chat.undo()
        with pytest.raises(BadInput, match="cannot undo"):
            chat.undo()
        assert roles(chat) == "s"


def test_another_transcript_is_gone_on_with() -> None:
    with engine_over(target_of()) as engine, engine.conversation() as chat:
        first = done(chat.say("hello", SHORT))
        messages = chat.messages
        second = done(chat.say("and then", SHORT))
        chat.replace_messages([Message("user", "something else"), Message("assistant", "yes")])
        assert roles(chat) == "ua"
        done(chat.say("really", SHORT))
        assert roles(chat) == "uaua"
        chat.replace_messages(messages)
        again = done(chat.say("and then", SHORT))
        # What was said is text now: the model may read it as other tokens than it said.
        assert again.usage.prompt_tokens >= first.usage.prompt_tokens
        assert roles(chat) == "uaua"
        assert second.finish is again.finish


def test_a_sliding_window_that_cannot_go_back_reads_again_and_says_so_once() -> None:
    limits = replace(LIMITS, max_rows=4)
    options = GenerateOptions(ENDLESS, max_tokens=40)
    told: list[list[str]] = []
    texts: list[list[str]] = []
    for window in (8, 0):
        told.append([])
        texts.append([])
        with engine_over(target_of(limits, window)) as engine, engine.conversation() as chat:
            for question in ("hello", "and then", "", "or else", "", "or not"):
                if not question:
                    chat.undo()
                    continue
                answer = chat.say(question, options)
                texts[-1].append(done(answer).text)
                told[-1] += [notice.code for notice in done(answer).notices]
    assert texts[0] == texts[1]
    assert told == [["reread"], []]


def test_a_running_state_is_kept_from_turn_to_turn() -> None:
    limits = replace(LIMITS, can_rollback=False, max_rows=1)
    with engine_over(target_of(limits)) as engine, engine.conversation() as chat:
        first = done(chat.say("hello", SHORT))
        second = done(chat.say("and then", SHORT))
        assert second.timings.cached_prompt_tokens == first.usage.prompt_tokens + 11
        assert (second.notices, second.timings.draft_n) == ((), 0)
        chat.undo()
        again = done(chat.say("and then", SHORT))
        assert [notice.code for notice in again.notices] == ["reread"]
        assert again.timings.cached_prompt_tokens == 0
    assert answered(again) == answered(second)


# -- a full context -----------------------------------------------------------------------------------------------


def test_the_oldest_turns_go_and_the_system_prompt_stays() -> None:
    limits = replace(LIMITS, n_ctx=300)
    with engine_over(target_of(limits)) as engine, engine.conversation("be brief") as chat:
        dropped = 0
        for turn in range(12):
            before = chat.messages
            answer = chat.say(f"question {turn}", SHORT)
            completion = done(answer)
            assert chat.messages[0] == Message("system", "be brief")
            assert chat.messages[-2:] == (Message("user", f"question {turn}"), Message("assistant", completion.text))
            n_dropped = len(before) + 2 - len(chat.messages)
            notices = [f"the context is full: the oldest {n_dropped} messages were dropped"] * bool(n_dropped)
            assert [notice.message for notice in answer.notices] == notices
            assert completion.notices == answer.notices
            assert chat.messages[1:-2] == before[1 + n_dropped :]
            assert completion.usage.prompt_tokens <= 300 - 12
            dropped += n_dropped
        assert dropped > 8


def test_a_message_that_is_too_long_alone_changes_nothing() -> None:
    limits = replace(LIMITS, n_ctx=300)
    with engine_over(target_of(limits)) as engine, engine.conversation("be brief") as chat:
        done(chat.say("hello", SHORT))
        before = chat.messages
        with pytest.raises(ContextOverflow, match=r"a message of .* with its system prompt: the context holds 300"):
            chat.say("x" * 300, SHORT)
        assert chat.messages == before
        completion = done(chat.say("and then", SHORT))
        assert completion.timings.cached_prompt_tokens > 0
        assert roles(chat) == "suaua"


def test_a_long_answer_gets_a_quarter_of_the_context_at_least() -> None:
    limits = replace(LIMITS, n_ctx=200)
    with engine_over(target_of(limits)) as engine, engine.conversation() as chat:
        overhead = (
            len(engine.encoder.encode_more([])) + done(chat.say("", GenerateOptions(ENDLESS))).usage.prompt_tokens
        )
        chat.undo()
        fitting = "x" * (150 - overhead)
        completion = done(chat.say(fitting, GenerateOptions(ENDLESS)))
        assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (150, 50)
        assert completion.finish is Finish.LENGTH
        chat.undo()
        with pytest.raises(ContextOverflow, match="an answer needs 50"):
            chat.say(fitting + "x", GenerateOptions(ENDLESS))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("suaua", "sua"),
        ("uaua", "ua"),
        ("ssuau", "ssu"),
        ("uuu", "uu"),
        ("auau", "uau"),
        ("uaau", "u"),
        ("su", None),
        ("u", None),
        ("s", None),
        ("", None),
        ("sua", None),
    ],
)
def test_the_oldest_turn_is_a_question_with_all_that_follows_it(before: str, after: str | None) -> None:
    names = {"s": "system", "u": "user", "a": "assistant"}
    messages = [Message(names[letter], str(place)) for place, letter in enumerate(before)]
    shorter = without_oldest_turn(messages)
    assert (shorter and "".join(message.role[0] for message in shorter)) == after
    if shorter:
        assert shorter == [m for m in messages if m.role == "system"] + shorter[before.count("s") :]
        assert shorter[-1] is messages[-1]


# -- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["reading", "decoding"])
def test_a_question_whose_answer_failed_is_taken_back(place: str) -> None:
    target = target_of()
    with (
        engine_over(target) as engine,
        engine.conversation("be brief") as chat,
        engine.conversation("be brief") as other,
    ):
        done(chat.say("hello", SHORT))
        before = chat.messages
        target.before_pass = lambda one: fails(one) if bool(one.width) is (place == "decoding") else None
        answer = chat.say("what fails", SHORT)
        with pytest.raises(EngineFailure, match="rows broke it"):
            done(answer)
        target.before_pass = None
        assert chat.messages == before
        done(other.say("hello", SHORT))
        assert answered(done(chat.say("and then", SHORT))) == answered(done(other.say("and then", SHORT)))
        assert chat.messages == other.messages


def test_a_failure_that_nobody_looked_at_does_not_fail_the_next_question() -> None:
    target = target_of()
    with engine_over(target) as engine, engine.conversation() as chat:
        target.before_pass = fails
        failed = chat.say("what fails", SHORT)
        assert failed.wait(timeout_seconds=60.0)
        target.before_pass = None
        done(chat.say("hello", SHORT))
        assert chat.messages[0] == Message("user", "hello")
        assert roles(chat) == "ua"


def test_a_turn_that_was_dropped_for_an_answer_that_failed_comes_back() -> None:
    target = target_of(replace(LIMITS, n_ctx=200))
    with engine_over(target) as engine, engine.conversation() as chat:
        for _ in range(2):
            done(chat.say("hello", SHORT))
        before = chat.messages
        target.before_pass = fails
        answer = chat.say("x" * 110, SHORT)
        with pytest.raises(EngineFailure):
            done(answer)
        assert [notice.code for notice in answer.notices] == ["context-full"]
        assert chat.messages == before


def test_a_callback_that_fails_takes_its_question_back() -> None:
    with engine_over(target_of()) as engine, engine.conversation() as chat:
        answer = chat.say("hello", SHORT, on_piece=raising)
        with pytest.raises(LookupError):
            done(answer)
        assert chat.messages == ()
        assert done(chat.say("hello", SHORT)).usage.completion_tokens == 12


def raising(_: object) -> None:
    raise LookupError("the caller's mistake")


def test_a_cancelled_answer_is_kept_as_far_as_it_came() -> None:
    with engine_over(target_of()) as engine, engine.conversation() as chat:
        pieces: list[object] = []
        options = GenerateOptions(ENDLESS, max_tokens=100)
        answer = chat.say("hello", options, on_piece=lambda piece: pieces.append(piece) or len(pieces) < 4)  # type: ignore[func-returns-value]
        completion = done(answer)
        assert completion.finish is Finish.CANCELLED
        assert chat.messages[-1] == Message("assistant", completion.text)
        second = done(chat.say("and then", SHORT))
        assert second.timings.cached_prompt_tokens >= completion.usage.prompt_tokens + 3


def test_a_cancel_while_the_prompt_is_read_leaves_an_empty_answer() -> None:
    target = target_of()
    gate = Gate(target, lambda one: not one.width and len(target.passes) == 1)
    with engine_over(target) as engine, engine.conversation() as chat:
        answer = chat.say("x" * 100, SHORT)
        gate.wait_until_reached()
        answer.cancel()
        assert (done(answer).finish, done(answer).text) == (Finish.CANCELLED, "")
        gate.open()
        assert done(chat.say("and then", SHORT)).timings.cached_prompt_tokens == 32
        assert roles(chat) == "uaua"


def test_a_closed_engine_is_told_and_changes_nothing() -> None:
    with engine_over(target_of()) as engine:
        chat = engine.conversation()
        done(chat.say("hello", SHORT))
        before = chat.messages
    with pytest.raises(EngineFailure, match="has been closed"):
        chat.say("and then", SHORT)
    assert chat.messages == before
    chat.close()


def test_closing_stops_the_answer_and_frees_the_cache() -> None:
    target = target_of()
    with engine_over(target) as engine:
        chat = engine.conversation()
        answer = chat.say("hello", GenerateOptions(ENDLESS, max_tokens=900))
        next(iter(answer))
        chat.close()
        assert done(answer).finish is Finish.CANCELLED
        done(engine.complete("x", SHORT))
        assert target.live() == set()


# -- several of them, and exactness -------------------------------------------------------------------------------


def talk(chat: Conversation, options: GenerateOptions) -> Callable[[str], Completion]:
    return lambda question: done(chat.say(question, options))


def test_two_conversations_do_not_mix() -> None:
    warm = GenerateOptions(replace(ENDLESS, temperature=0.9, seed=3), max_tokens=20)
    questions = ["hello", "and then", "or else"]
    with engine_over(target_of()) as engine:
        alone = [list(map(talk(engine.conversation(system), warm), questions)) for system in ("one", "two")]
    with engine_over(target_of()) as engine:
        chats = [engine.conversation("one"), engine.conversation("two")]
        together: list[list[Completion]] = [[], []]
        for question in questions:
            answers = [chat.say(question, warm) for chat in chats]
            for place, answer in enumerate(answers):
                together[place].append(done(answer))
    for one, other in zip(alone, together, strict=True):
        assert list(map(answered, one)) == list(map(answered, other))
        assert [c.timings.cached_prompt_tokens for c in one] == [c.timings.cached_prompt_tokens for c in other]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_exact_chats_are_the_same_with_drafts_and_without(temperature: float) -> None:
    # A text that repeats itself, so that lookup finds something, and logits so flat that last bits decide.
    model = ToyModel(n_vocab=N_VOCAB, order=1, n_levels=3, masked=0.98, seed=9)
    limits = replace(LIMITS, width_classes=(WIDTHS,))
    sampling = replace(ENDLESS, temperature=temperature, seed=5)
    runs: list[list[Completion]] = []
    origins: list[list[str]] = []
    for draft in (DraftChoice.OFF, DraftChoice.AUTO):
        target = EngineTarget(model, limits, rounding=True)
        options = GenerateOptions(sampling, max_tokens=40, exact=True, draft=draft, stop=("~",))
        with engine_over(target, WIDTHS) as engine, engine.conversation("be brief") as chat:
            runs.append([done(chat.say(question, options)) for question in ("hello", "hello", "and then", "hello")])
            chat.undo()
            runs[-1].append(done(chat.say("or else", options)))
            origins.append(list(target.origin[0]))
    plain, drafted = runs
    assert list(map(answered, plain)) == list(map(answered, drafted))
    assert [c.timings.cached_prompt_tokens for c in plain] == [c.timings.cached_prompt_tokens for c in drafted]
    assert origins[0] == origins[1]
    assert sum(c.timings.draft_n_accepted for c in drafted) > 20
    assert sum(c.timings.passes for c in drafted) < sum(c.timings.passes for c in plain)


def test_an_exact_turn_does_not_depend_on_how_the_fast_turn_before_it_was_made() -> None:
    limits = replace(LIMITS, width_classes=(WIDTHS,))
    runs: list[Completion] = []
    origins: list[list[str]] = []
    for prediction in ("", "what the model says may be this, or may be that"):
        target = EngineTarget(MODEL, limits, rounding=True)
        with engine_over(target, WIDTHS) as engine, engine.conversation() as chat:
            done(chat.say("hello", replace(SHORT, prediction=prediction)))
            runs.append(done(chat.say("and then", replace(SHORT, exact=True, prediction=prediction))))
            origins.append(list(target.origin[0]))
    assert answered(runs[0]) == answered(runs[1])
    assert origins[0] == origins[1]
    assert set(origins[0]) == {"prompt", "2"}


def test_the_chat_that_was_idle_longest_is_read_again_without_a_difference() -> None:
    target = target_of()
    with engine_over(target) as engine:
        chats = [engine.conversation(f"system {place}") for place in range(5)]
        first = [done(chat.say("hello", SHORT)) for chat in chats]
        assert target.live() == {1, 2, 3, 4}
        second = [done(chat.say("hello", SHORT)) for chat in reversed(chats)]
        assert [bool(completion.timings.cached_prompt_tokens) for completion in second] == [True] * 4 + [False]
        alone = engine.conversation("system 0")
        assert answered(done(alone.say("hello", SHORT))) == answered(first[0])
        assert answered(done(alone.say("hello", SHORT))) == answered(second[-1])


def test_two_lines_are_enough() -> None:
    with engine_over(target_of()) as engine:
        assert engine.conversation().say("hello", SHORT).text != ""
    assert isinstance(engine, Engine)
