"""A child process that tries engine settings on a model: exit code 0 means they work. Run by `edgespec.backend.probe`.

Some builds of llama.cpp die on some settings (a signal, no Python error), so nothing unproven runs in the user's
process.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from edgespec.backend.settings import LlamaSettings
from edgespec.errors import EdgeSpecError
from edgespec.spec.ports import VerifyRequest
from edgespec.spec.tree import chain

# Exit code for an ordinary error: the parent will meet it again and report it properly.
REFUSED = 3


def run(path: Path, settings: LlamaSettings) -> None:
    """One prefill chunk, one plain pass, one wide pass: every kernel that an answer would use."""
    from edgespec.backend.llama.native import load_model
    from edgespec.backend.llama.target import LlamaTarget

    target = LlamaTarget(load_model(path, settings), settings)
    target.extend(0, np.arange(1, 33, dtype=np.int32) % target.capabilities.n_vocab)
    for n_nodes in (0, target.capabilities.max_rows - 1):
        tokens = np.arange(n_nodes, dtype=np.int32) % target.capabilities.n_vocab
        tree = chain(tokens, np.ones(n_nodes, np.float32))
        rows = target.verify([VerifyRequest(0, np.ones(1, np.int32), tree, False)], n_nodes + 1)
        rows[0].logits(n_nodes)
    target.close()


def main() -> int:
    try:
        run(Path(sys.argv[1]), LlamaSettings.from_json(sys.argv[2]))
    except EdgeSpecError as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
