"""How this package's own modules are started in processes of their own, from a Python and from a frozen program.

A frozen program has no Python beside it: what would start one starts the program again. So its main begins with
`run_child`, which does a child's work instead where it is asked for one. Contract: builds commands; starts nothing.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from edgespec.errors import EngineFailure

# The folder that edgespec is imported from. Children start there: "-m" looks in the working folder first, and a user's
# may hold a numpy.py.
HOME = Path(__file__).resolve().parents[1]

# Set where `run_child` was called: a frozen program that never does would start itself over and over.
DECLARED = "EDGESPEC_RUNS_CHILDREN"
_FLAG = "--edgespec-child"
_OURS = "edgespec."


def child_command(module: str, *arguments: str) -> list[str]:
    """What runs `module` of this package with these arguments. Raises EngineFailure in a frozen program without
    `run_child`.
    """
    if not getattr(sys, "frozen", False):
        return [sys.executable, "-m", module, *arguments]
    if not os.environ.get(DECLARED):
        raise EngineFailure(
            "cannot start a process beside this program",
            "it is frozen, and starting its executable would only start it again",
            "call edgespec.run_child() first in its main module",
        )
    return [sys.executable, _FLAG, module, *arguments]


def run_child() -> None:
    """For the first line of a frozen program's main: where the program was started to do a child's work it does that
    and exits; otherwise nothing happens.
    """
    os.environ[DECLARED] = "1"
    if len(sys.argv) < 3 or sys.argv[1] != _FLAG or not sys.argv[2].startswith(_OURS):
        return
    module = sys.argv[2]
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    raise SystemExit(0)
