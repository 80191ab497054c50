from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.server.fields import Fields
from edgespec.server.refusals import Refusal

READERS: tuple[Callable[[Fields], object], ...] = (
    lambda fields: fields.text("a", ""),
    lambda fields: fields.flag("a", False),
    lambda fields: fields.whole("a", 0),
    lambda fields: fields.number("a", 0.0),
    lambda fields: fields.items("a"),
    lambda fields: fields.inner("a"),
    lambda fields: fields.objects("a"),
    lambda fields: fields.texts("a"),
    lambda fields: fields.whole_keyed("a"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def refusal_by(act: Callable[[], object]) -> Refusal | None:
    try:
        act()
    except Refusal as refusal:
        return refusal
    return None


def fields_of(text: str) -> Fields:
    return Fields.parse(text.encode())


@given(JSON)
def test_every_value_is_read_or_refused_by_name(value: object) -> None:
    for read in READERS:
        refusal = refusal_by(partial(read, Fields({"a": value}, "messages[1].")))
        if refusal is not None:
            assert refusal.param is not None
            assert refusal.param.startswith("messages[1].a")
            assert str(refusal).encode()


@given(st.binary())
def test_whatever_the_bytes_they_are_an_object_or_refused(body: bytes) -> None:
    refusal = refusal_by(lambda: Fields.parse(body))
    assert refusal is None or refusal.code == "invalid_json"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no JSON"),
        (b"[1]", "a list"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "no JSON"),
        (b'{"a":' * 200_000, "nested"),
        (b"\xff", "no JSON"),
    ],
)
def test_bodies_that_are_no_request(body: bytes, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        Fields.parse(body)


def test_null_is_absent() -> None:
    fields = fields_of('{"a": null}')
    assert [read(fields) for read in READERS[:5]] == ["", False, 0, 0.0, []]
    assert not fields.has("a")


def test_numbers_are_taken_as_javascript_writes_them() -> None:
    fields = fields_of('{"a": 3.0, "b": 3.5, "c": true, "d": 1e999}')
    assert fields.whole("a", 0) == 3
    assert fields.number("b", 0.0) == 3.5
    for read in (lambda: fields.whole("b", 0), lambda: fields.whole("c", 0), lambda: fields.number("d", 0.0)):
        with pytest.raises(Refusal):
            read()


def test_half_characters_are_refused_before_they_reach_a_tokeniser() -> None:
    with pytest.raises(Refusal, match="character 1 is half of a pair"):
        fields_of('{"a": "x\\ud800"}').text("a")


def test_inner_fields_are_named_by_their_path() -> None:
    body = json.dumps({"list": [{"x": 1}, {"x": {"y": "no"}}]})
    inner = fields_of(body).objects("list")[1].inner("x")
    with pytest.raises(Refusal, match=r"^list\[1\].x.y: it is a text; give a whole number\.$") as refused:
        inner.whole("y", 0)
    assert refused.value.param == "list[1].x.y"


def test_what_is_missing_is_said_to_be_missing() -> None:
    with pytest.raises(Refusal, match="it is missing; give a text") as refused:
        fields_of("{}").text("model")
    assert refused.value.code == "missing_required_parameter"


def test_an_unknown_field_brings_a_guess() -> None:
    with pytest.raises(Refusal, match="perhaps you mean 'seed'") as refused:
        fields_of('{"sede": 1}').only(("seed", "stop"))
    assert refused.value.code == "unknown_parameter"


def test_numbers_as_keys() -> None:
    assert fields_of('{"a": {"7": -1, "12": 2.5}}').whole_keyed("a") == ((7, -1.0), (12, 2.5))
    for strange in ('{"x": 1}', '{"-1": 1}', '{"²": 1}', '{"1": "a"}', '{"99999999999": 1}'):
        with pytest.raises(Refusal):
            fields_of(f'{{"a": {strange}}}').whole_keyed("a")
