"""A child that speaks as the library's process does, without a model: it answers by counting and fails on demand.

Argument: HOW@WHEN, what it does instead of working, at the start or when asked.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from edgespec.bench.library_child import Question, Reply


def fail(how: str) -> None:
    if how == "dies":
        print("out of tiles", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    if how == "leaves":
        sys.exit(7)
    if how == "hangs":
        time.sleep(3600)
    if how == "refuses":
        say(Reply(refused="no memory for it"))
        sys.exit(20)
    if how == "babbles":
        print("llama says hello", flush=True)


def say(reply: Reply) -> None:
    print(reply.to_line(), end="", flush=True)


def main() -> None:
    how, _, when = sys.argv[1].partition("@")
    fail(how if when == "start" else "")
    say(Reply())
    for line in sys.stdin:
        fail(how if when == "asked" else "")
        question = Question.from_line(line)
        say(Reply(tuple(range(question.max_tokens)), 0.5, 0.75, 1.5, question.max_tokens))


if __name__ == "__main__":
    main()
