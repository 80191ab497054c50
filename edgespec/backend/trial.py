"""A child process that tries engine settings on a model: exit code 0 means they work. Run by `edgespec.backend.probe`.

Some builds of llama.cpp die on some settings (a signal, no Python error), so nothing unproven runs in the user's
process.
"""

from __future__ import annotations

import ctypes
import sys
import traceback
from pathlib import Path

import numpy as np

from edgespec.backend.settings import LlamaSettings
from edgespec.errors import EdgeSpecError
from edgespec.spec.ports import Capabilities, Commit, IntArray, Target, VerifyRequest
from edgespec.spec.tree import DraftTree, chain, tree_of

# Exit code for an ordinary error: the parent will meet it again and report it properly. No code that an abort leaves
# (3 on Windows) or a library that calls exit (1).
REFUSED = 20


def run(path: Path, settings: LlamaSettings) -> None:
    """The vocabulary, one prefill chunk, a plain, a wide and a branching pass: all that an answer would use."""
    from edgespec.backend.llama.native import load_model
    from edgespec.backend.llama.target import LlamaTarget
    from edgespec.backend.llama.vocab import LlamaVocabulary

    model = load_model(path, settings)
    target = LlamaTarget(model, settings)
    vocab = LlamaVocabulary(model)
    for token in [*vocab.tokenize_special("Trying 1, 2, 3."), *vocab.special_tokens.values(), *vocab.end_tokens]:
        vocab.piece(token)
    can = target.capabilities
    target.extend(0, _tokens(min(can.max_chunk, can.n_ctx // 2), can.n_vocab))
    for tree in _trees(can):
        _pass(target, tree)
    target.close()


def _trees(can: Capabilities) -> list[DraftTree]:
    """Nothing, and where drafts are possible the longest chain and the broadest tree of a pass."""
    if not can.can_rollback:
        return [_branches(0, can)]
    widest = chain(_tokens(can.max_rows - 1, can.n_vocab), np.ones(can.max_rows - 1, np.float32))
    return [_branches(0, can), widest, _branches(min(can.max_leaves, can.max_rows - 1), can)]


def _branches(n: int, can: Capabilities) -> DraftTree:
    return tree_of(_tokens(n, can.n_vocab).tolist(), [-1] * n, [1.0] * n)


def _pass(target: Target, tree: DraftTree) -> None:
    """One verify pass of which nothing is accepted."""
    rows = target.verify([VerifyRequest(0, np.ones(1, np.int32), tree, False)], 1 + len(tree))[0]
    rows.logits(len(tree))
    target.commit(0, Commit(np.zeros(0, np.int32), np.ones(1, np.int32)))


def _tokens(n: int, n_vocab: int) -> IntArray:
    return np.arange(1, n + 1, dtype=np.int32) % n_vocab


def die_quietly() -> None:
    """No dialog box on Windows and no core file elsewhere, if the settings kill this process."""
    if sys.platform == "win32":
        ctypes.windll.kernel32.SetErrorMode(0x0003)
    else:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> int:
    die_quietly()
    try:
        run(Path(sys.argv[1]), LlamaSettings.from_json(sys.argv[2]))
    except EdgeSpecError as error:
        print(error, file=sys.stderr)
        return REFUSED
    except Exception:  # whatever else Python reports, the process has survived the settings
        traceback.print_exc()
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
