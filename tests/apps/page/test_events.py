"""The reader of event streams, however the bytes are cut."""

from __future__ import annotations

import pytest

from tests.apps.page.toy_page import Visitor

READ = """async chunks => {
    const { events } = await import("/page/events.js");
    const stream = new ReadableStream({
        start(control) {
            for (const chunk of chunks) control.enqueue(new Uint8Array(chunk));
            control.close();
        },
    });
    const found = [];
    try {
        for await (const event of events(stream)) found.push(event);
    } catch (error) {
        found.push(error.message);
    }
    return found;
}"""
STREAM = ': a comment\n\ndata: {"a":"é\\n\\n"}\n\n: another\n\ndata: {"a":\ndata: 2}\n\ndata: [DONE]\n\n'.encode()


def read(visitor: Visitor, *chunks: bytes) -> list[object]:
    found: list[object] = visitor.page.evaluate(READ, [list(chunk) for chunk in chunks])
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_objects_come_whole_however_the_bytes_are_cut(visitor: Visitor, size: int) -> None:
    chunks = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert read(visitor, *chunks) == [{"a": "é\n\n"}, {"a": 2}]


def test_what_follows_the_end_mark_is_not_read(visitor: Visitor) -> None:
    assert read(visitor, STREAM + b"data: 5\n\n") == [{"a": "é\n\n"}, {"a": 2}]


def test_a_stream_without_its_end_mark_broke_off(visitor: Visitor) -> None:
    assert read(visitor, b'data: {"a":1}\n\ndata: {"a"') == [{"a": 1}, "the answer broke off"]
