"""What a conversation's text was read as, so that the tokens of earlier answers stay those the model said.

Text that was tokenised once is not tokenised again: another tokenisation of the same text would not be what is in the
cache. Knows no messages and no template.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.text.vocab import PromptEncoder, Segment, continuation


class Reading:
    """The longest text so far, its tokens, and where in both each answer ended."""

    def __init__(self, encoder: PromptEncoder) -> None:
        self._encoder = encoder
        self._text = ""
        self._tokens: list[int] = []
        self._ends: list[tuple[int, int]] = []  # (characters, tokens), ascending

    def tokens_of(self, segments: Sequence[Segment]) -> list[int]:
        """The tokens of a prompt: those known of the longest exchange that it begins with, and new ones."""
        for n_characters, n_tokens in reversed(self._ends):
            rest = continuation(self._text[:n_characters], segments)
            if rest is not None:
                return self._tokens[:n_tokens] + self._encoder.encode_more(rest)
        return self._encoder.encode(segments)

    def add(self, prompt_text: str, prompt: list[int], answer: str, answer_tokens: Sequence[int]) -> None:
        """An answer is over. What was read beyond the part that it goes on from is forgotten."""
        self._ends = [
            (n_characters, n_tokens)
            for n_characters, n_tokens in self._ends
            if prompt_text.startswith(self._text[:n_characters]) and prompt[:n_tokens] == self._tokens[:n_tokens]
        ]
        self._text = prompt_text + answer
        self._tokens = [*prompt, *answer_tokens]
        self._ends.append((len(self._text), len(self._tokens)))
