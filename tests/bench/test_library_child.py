"""What the library's process does, in this process: the lines, the counting, the times."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgespec.bench.library_child import Question, Reply, answer, serve
from edgespec.errors import EngineFailure
from edgespec.events import Finish
from tools.make_toy_model import write_toy_model

PROMPT = (2, 9, 30, 31, 9, 30)


class Counting:
    """Stands where the library does: says 1, 2, 3, ... and notes what it read."""

    def __init__(self) -> None:
        self.read_tokens: list[int] = []
        self.n_said = 0

    def read(self, tokens: list[int]) -> None:
        self.read_tokens = list(tokens)

    def generate(self, token: int) -> Iterator[int]:
        self.read_tokens.append(token)
        for self.n_said in itertools.count(1):
            yield self.n_said


def counted(question: Question) -> tuple[Reply, Counting]:
    library, ticks = Counting(), itertools.count()
    return answer(library, question, lambda: float(next(ticks))), library  # type: ignore[arg-type]


def test_all_is_read_and_the_answer_ends_in_time() -> None:
    reply, library = counted(Question((5, 6, 7), 3, (9,)))
    assert library.read_tokens == [5, 6, 7]
    assert library.n_said == 3
    # The clock ticks at the start, after reading, at the first token, at the end.
    assert reply == Reply((1, 2, 3), 1.0, 2.0, 2.0, 3, Finish.LENGTH)


def test_an_end_token_ends_it_and_is_no_part_of_it() -> None:
    reply, _ = counted(Question((5,), 20, (9, 40)))
    assert (reply.token_ids, reply.finish, reply.passes) == (tuple(range(1, 9)), Finish.STOP, 9)
    first, _ = counted(Question((5,), 20, (1,)))
    assert (first.token_ids, first.finish, first.passes) == ((), Finish.STOP, 1)


def test_lines_keep_everything() -> None:
    question = Question((1, 2), 3, (4,))
    assert Question.from_line(question.to_line()) == question
    for reply in (Reply(), Reply((1, 2), 0.25, 0.5, 0.75, 3, Finish.STOP, "why")):
        line = reply.to_line()
        assert line.endswith("\n")
        assert Reply.from_line(line) == reply


@pytest.mark.parametrize("line", ["", "hello\n", "[]\n", "{}\n", '{"token_ids": 3}\n', Reply().to_line()[:-9]])
def test_other_lines_are_no_replies(line: str) -> None:
    with pytest.raises(ValueError, match="no reply"):
        Reply.from_line(line)


def test_a_real_library_answers_every_question_as_its_first(tmp_path: Path) -> None:
    path, replies = write_toy_model(tmp_path / "toy.gguf"), io.StringIO()
    questions = [Question(PROMPT, 6, ()), Question(PROMPT[:1], 2, ()), Question(PROMPT, 6, ())]
    serve(path, 128, io.StringIO("".join(one.to_line() for one in questions)), replies)
    ready, first, short, again = map(Reply.from_line, replies.getvalue().splitlines())
    assert ready == Reply()
    assert (len(first.token_ids), len(short.token_ids)) == (6, 2)
    assert again.token_ids == first.token_ids
    assert first.decode_seconds > first.first_token_seconds - first.read_seconds > 0.0
    third = first.token_ids[2]
    replies = io.StringIO()
    serve(path, 128, io.StringIO(Question(PROMPT, 6, (third,)).to_line()), replies)
    ended = Reply.from_line(replies.getvalue().splitlines()[1])
    assert ended.token_ids == first.token_ids[: first.token_ids.index(third)]
    assert ended.finish is Finish.STOP


def test_a_missing_model_is_an_error_before_any_line(tmp_path: Path) -> None:
    replies = io.StringIO()
    with pytest.raises(EngineFailure, match="in Llama"):
        serve(tmp_path / "no.gguf", 128, io.StringIO(), replies)
    assert replies.getvalue() == ""
