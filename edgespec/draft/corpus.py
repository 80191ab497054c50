"""Texts to draft from beside the request's own: past answers, kept on disk, and files given for this process.

Contract: `Corpus` holds at most `max_tokens` tokens and drops its oldest texts to make room. `snapshot` is what
requests draft from: immutable indexes that stay as they are, in memory for as long as some request holds them. Adding
takes some 20 us per token, of which now and then half a second falls on one call. `TextLog` is the file: texts are
appended, each with a checksum; what is damaged is skipped, and gone with the next write. It belongs to one vocabulary
(`token_hash`), since it holds token ids. Damage and full disks are never raised: past answers are a convenience.
Nothing but this one file is touched; what may be added is the caller's decision. Not thread-safe; of two processes
that write at the same moment one may lose a text.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from edgespec.draft.suffix_tree import SealedIndex
from edgespec.spec.ports import IntArray

# About 20 MB in memory and 4 MB on disk; a user's answers of some weeks.
_MAX_TOKENS = 1 << 20

# Indexes grow by merging up to this many tokens: larger ones make single calls of `add` last long, smaller ones are
# many to search in each round.
_LARGEST_INDEX = 1 << 18

# Making room frees this share at once, so that an index is rebuilt seldom and not with every text.
_FREED = 1 / 8

# The file may hold this many times the tokens allowed before it is written anew: each writing costs as much as reading.
_FILE_SLACK = 2

# Raise when the format changes: files of another format are then left alone, not misread.
FORMAT = 1

_MARK = b"\xe5\x9ec\x7f"
_HEAD = struct.Struct("<4sII")  # mark, number of tokens, checksum
_TOKEN_BYTES = 4


class TextLog:
    """A file of token texts in `folder`, for the vocabulary named by `token_hash` (hexadecimal)."""

    def __init__(self, folder: Path, token_hash: str) -> None:
        self.path = folder / f"texts-{FORMAT}-{token_hash[:16]}.log"
        self.damaged = False
        self._header = f"edgespec texts {FORMAT} {token_hash}\n".encode()

    def read(self) -> list[IntArray]:
        """All whole texts, oldest first; none where no file can be read. `damaged` tells if anything was skipped."""
        self.damaged = False
        try:
            raw = self.path.read_bytes()
        except OSError:
            return []
        self.damaged = not raw.startswith(self._header)
        return [] if self.damaged else list(self._texts(raw))

    def append(self, tokens: IntArray) -> bool:
        """Add one text at the end; False if the disk refuses. A damaged file is replaced by what is whole in it."""
        if self.damaged or not self.path.exists():
            return self.rewrite([*self.read(), tokens])
        record = _record(tokens)
        try:
            # One write to a file opened for appending: texts of two processes do not mix.
            with self.path.open("ab", buffering=0) as file:
                return file.write(record) == len(record)
        except OSError:
            return False

    def rewrite(self, texts: Sequence[IntArray]) -> bool:
        """Replace the file at once by these texts, or leave it and return False. Only the user may read it."""
        temporary = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
            with os.fdopen(handle, "wb") as file:
                file.write(self._header + b"".join(map(_record, texts)))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except OSError:
            _remove(temporary)
            return False
        except BaseException:  # also Ctrl-C: no temporary file stays behind; raised again
            _remove(temporary)
            raise
        self.damaged = False
        return True

    @property
    def n_bytes(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _texts(self, raw: bytes) -> Iterator[IntArray]:
        place = len(self._header)
        while place < len(raw):
            tokens = _text_at(raw, place)
            if tokens is not None:
                yield tokens
                place += _HEAD.size + tokens.nbytes
                continue
            # After damage the next mark with a right checksum goes on; a mark inside a text fails its checksum.
            self.damaged = True
            place = raw.find(_MARK, place + 1)
            if place < 0:
                return


class Corpus:
    """`log`: where added texts are kept, None for memory only; what it holds is read at once.

    Reads as public: n_tokens, n_texts, n_unsaved (texts that the disk refused).
    """

    def __init__(self, max_tokens: int = _MAX_TOKENS, log: TextLog | None = None) -> None:
        self.n_unsaved = 0
        self._max_tokens = max_tokens
        self._log = log
        self._indexes: deque[SealedIndex] = deque()
        self._snapshot: tuple[SealedIndex, ...] = ()
        self.include([] if log is None else log.read())

    @property
    def n_tokens(self) -> int:
        return sum(index.n_tokens for index in self._indexes)

    @property
    def n_texts(self) -> int:
        return sum(len(index.texts) for index in self._indexes)

    def snapshot(self) -> tuple[SealedIndex, ...]:
        """The indexes of all texts now, oldest first. Later calls change nothing in what was handed out."""
        return self._snapshot

    def add(self, tokens: Sequence[int] | IntArray) -> None:
        """Keep a text, also on disk where there is a log. Raises ValueError for a negative token."""
        text = _checked(tokens, self._max_tokens)
        if not len(text):
            return
        self.include([text])
        if self._log is not None:
            self.n_unsaved += not self._log.append(text)
            if self._log.n_bytes > _FILE_SLACK * _TOKEN_BYTES * self._max_tokens:
                self._log.rewrite(_newest(self._log.read(), self._max_tokens))

    def include(self, texts: Sequence[Sequence[int] | IntArray]) -> None:
        """Texts for this process only, oldest first. Raises ValueError for a negative token."""
        checked = [_checked(text, self._max_tokens) for text in texts]
        for group in _groups(_newest([text for text in checked if len(text)], self._max_tokens)):
            self._indexes.append(SealedIndex(group))
            self._merge()
            self._make_room()
        self._snapshot = tuple(self._indexes)

    def _merge(self) -> None:
        """Keep sizes falling by halves: few indexes to search, and each token is sorted a few times only."""
        indexes = self._indexes
        while len(indexes) > 1:
            older, newer = indexes[-2], indexes[-1]
            if older.n_tokens >= 2 * newer.n_tokens or older.n_tokens + newer.n_tokens > _LARGEST_INDEX:
                return
            indexes.pop()
            indexes[-1] = SealedIndex([*older.texts, *newer.texts])

    def _make_room(self) -> None:
        """Drop the oldest texts; the newest one stays in any case."""
        indexes = self._indexes
        if self.n_tokens <= self._max_tokens:
            return
        excess = self.n_tokens - int(self._max_tokens * (1.0 - _FREED))
        while excess > 0 and len(indexes) > 1:
            oldest = indexes.popleft()
            rest = _without(oldest.texts, excess)
            if rest:
                indexes.appendleft(SealedIndex(rest))
            excess -= oldest.n_tokens
        if excess > 0:
            *older, newest = indexes[0].texts
            indexes[0] = SealedIndex([*_without(older, excess), newest])


def _without(texts: Sequence[IntArray], n_tokens: int) -> Sequence[IntArray]:
    """What is left when whole texts, the first ones, make at least this room."""
    for n_dropped, text in enumerate(texts):
        if n_tokens <= 0:
            return texts[n_dropped:]
        n_tokens -= len(text)
    return ()


def _newest(texts: Sequence[IntArray], max_tokens: int) -> list[IntArray]:
    """The last texts that have this many tokens together; the very last one in any case."""
    n_tokens, n_kept = 0, 0
    for text in reversed(texts):
        n_tokens += len(text)
        if n_kept and n_tokens > max_tokens:
            break
        n_kept += 1
    return list(texts[len(texts) - n_kept :])


def _groups(texts: Sequence[IntArray]) -> Iterator[list[IntArray]]:
    """Neighbours that fit one index; a text that does not has an index of its own."""
    group: list[IntArray] = []
    for text in texts:
        if group and sum(map(len, group)) + len(text) > _LARGEST_INDEX:
            yield group
            group = []
        group.append(text)
    if group:
        yield group


def _checked(tokens: Sequence[int] | IntArray, max_tokens: int) -> IntArray:
    """A copy of the last `max_tokens` tokens, int32."""
    text = np.array(tokens[max(0, len(tokens) - max_tokens) :], np.int32)
    if len(text) and int(text.min()) < 0:
        raise ValueError("a token id is negative")
    return text


def _record(tokens: IntArray) -> bytes:
    body = tokens.astype("<i4").tobytes()
    return _HEAD.pack(_MARK, len(tokens), _checksum(body)) + body


def _text_at(raw: bytes, place: int) -> IntArray | None:
    """The text whose record starts at `place`, or None if there is no whole one."""
    if place + _HEAD.size > len(raw):
        return None
    mark, n_tokens, checksum = _HEAD.unpack_from(raw, place)
    body = raw[place + _HEAD.size : place + _HEAD.size + _TOKEN_BYTES * n_tokens]
    if mark != _MARK or not n_tokens or len(body) != _TOKEN_BYTES * n_tokens or _checksum(body) != checksum:
        return None
    return np.frombuffer(body, "<i4").astype(np.int32)


def _checksum(body: bytes) -> int:
    """Of the tokens and of their number: a wrong number reads a body of another length."""
    return zlib.crc32(body, len(body))


def _remove(temporary: str | None) -> None:
    if temporary is not None:
        Path(temporary).unlink(missing_ok=True)
