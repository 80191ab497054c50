"""llama-cpp-python's `Llama` beside busy processes: it keeps its threads whatever others do. A few tokens only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tools.busy_processes import busy_processes
from tools.peer import Answer
from tools.peer_child import LIBRARY, Setup
from tools.peer_process import ProcessPeer

# Of the library: beside busy processes a token may take seconds.
N_DEFAULTS = 16
PATIENCE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class DefaultsFigures:
    """Of the library with so many threads: tokens per second beside busy processes, against its one thread alone.

    is_default: it chose the threads itself, which are one for two cores; else they are as many as the engine's.
    """

    n_busy: int
    n_threads: int
    is_default: bool
    during: float
    during_vs_one_thread_alone: float


def defaults_figures(path: Path, prompt: list[int], n_threads: int) -> list[DefaultsFigures]:
    """Of `Llama` in a process of its own, as it comes and with `n_threads`. Raises PeerFailed."""
    from edgespec.backend.llama.library import default_settings

    alone = _library_rate(path, prompt, 1, 0)
    found: list[DefaultsFigures] = []
    for threads in (None, n_threads):
        n_used = threads or default_settings(len(prompt)).n_threads
        for n_busy in (1, 2):
            rate = _library_rate(path, prompt, threads, n_busy)
            found.append(DefaultsFigures(n_busy, n_used, threads is None, rate, rate / alone))
    return found


def _library_rate(path: Path, prompt: list[int], n_threads: int | None, n_busy: int) -> float:
    """Tokens per second after the first one; the prompt is read on a machine that is as busy."""
    setup = Setup(LIBRARY, str(path), len(prompt) + N_DEFAULTS + 64, (), n_threads)
    with closing(ProcessPeer("llama", setup, PATIENCE_SECONDS)) as peer:
        peer.start()
        peer.ask(prompt, 2)  # brings the weights into memory
        with busy_processes(n_busy) as busy:
            busy.go()
            return decoded_rate(peer.ask(prompt, N_DEFAULTS))


def decoded_rate(answer: Answer) -> float:
    return answer.n_decoded / max(1e-9, answer.decode_seconds)


def defaults_table(found: Sequence[DefaultsFigures]) -> str:
    """Rows for below `busy.table`'s."""
    lines: list[str] = []
    for one in found:
        threads = f"{one.n_threads} threads" if one.n_threads > 1 else "1 thread"
        title = f"library, {threads}{' (default)' if one.is_default else ''}, {one.n_busy}"
        lines.append(f"{title:<34}{'':>13}{one.during:>13.2f}{'':>13}{one.during_vs_one_thread_alone:>13.3f}")
    return "\n".join(lines)
