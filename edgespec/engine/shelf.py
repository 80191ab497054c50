"""Texts to draft from beside the one under way: files and folders that the caller names, and, where he allows it, his
own past answers.

Files are read and cut into token texts once, when the engine opens. Past answers lie in the user's data folder, per
vocabulary, readable by him alone. Knows no drafter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from edgespec.config import data_dir
from edgespec.draft.corpus import Corpus, TextLog
from edgespec.errors import BadInput
from edgespec.events import Notice
from edgespec.text.vocab import Vocabulary

# Files beyond this are no texts to copy from, and reading one would delay the start by seconds.
_MOST_BYTES = 4 << 20
# A text is cut into pieces of so many characters: one index is made per piece, and a long one takes long.
_PIECE = 100_000
# An answer is kept with the end of its prompt, or its first tokens could never be found again.
_LEAD_TOKENS = 8
# Shorter answers say nothing that is worth looking up.
_LEAST_TOKENS = 16

Notify = Callable[[Notice], None]


def open_shelf(
    paths: tuple[Path, ...], remember: bool, vocab: Vocabulary, token_hash: str, notify: Notify
) -> Corpus | None:
    """None where there is nothing to draft from. Raises BadInput for a path that cannot be read."""
    if not paths and not remember:
        return None
    log = TextLog(data_dir() / "answers", token_hash) if remember else None
    corpus = Corpus(log=log)
    if log is not None and log.damaged:
        notify(Notice("records-rebuilt", f"{log.path.name} was damaged; what is whole in it is kept"))
    texts = [vocab.tokenize(piece) for path in paths for text in _texts(path) for piece in _pieces(text)]
    corpus.include(texts)
    return corpus


def keep_answer(corpus: Corpus, prompt: list[int], answer: tuple[int, ...]) -> None:
    """Remember an answer."""
    if len(answer) >= _LEAST_TOKENS:
        corpus.add([*prompt[-_LEAD_TOKENS:], *answer])


def _texts(path: Path) -> Iterator[str]:
    """The file's text, or those of all files in a folder that are UTF-8 text; hidden ones are left out."""
    if path.is_dir():
        for one in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in one.relative_to(path).parts)
            if one.is_file() and not hidden and one.stat().st_size <= _MOST_BYTES:
                text = _read(one)
                if text is not None:
                    yield text
        return
    text = _read(path)
    if text is None:
        raise BadInput(f"--corpus {path}", _objection(path), "give text files, or a folder")
    yield text


def _objection(path: Path) -> str:
    return "it is no text in UTF-8 that can be read" if path.exists() else "there is no such file or folder"


def _read(path: Path) -> str | None:
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]
