from __future__ import annotations

import pickle

from edgespec import errors
from edgespec.errors import EdgeSpecError, ModelNotFound, StaleRows

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EdgeSpecError)]


def test_an_error_is_a_sentence_in_three_parts() -> None:
    error = ModelNotFound("model.gguf", "there is no such file", "check the path")
    assert str(error) == "model.gguf: there is no such file; check the path."
    assert (error.what, error.why, error.remedy) == ("model.gguf", "there is no such file", "check the path")


def test_a_remedy_that_asks_keeps_its_question_mark() -> None:
    assert str(ModelNotFound("a", "b", "did you mean c?")) == "a: b; did you mean c?"


def test_it_survives_the_way_between_processes() -> None:
    for kind in KINDS:
        error = pickle.loads(pickle.dumps(kind("a", "b", "c")))
        assert type(error) is kind
        assert (str(error), error.exit_code) == ("a: b; c.", kind.exit_code)


def test_every_kind_has_an_exit_code_of_its_own() -> None:
    codes = [kind.exit_code for kind in KINDS]
    assert len(set(codes)) == len(codes) > 10
    # 0 is success, 2 a wrong command line, and from 126 on shells speak of programs that did not run or were killed.
    assert all(1 <= code < 126 and code != 2 for code in codes)


def test_a_programming_error_is_none_of_them() -> None:
    assert not issubclass(StaleRows, EdgeSpecError)
