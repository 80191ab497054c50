"""Measures what the worst drafter can cost: random tokens, claimed to be nearly certain, against plain decoding.

    python tools/hostile.py --prompts prompts.jsonl --threads 1

The same measurement as `edgespec bench`, with the look-up's place taken by a liar. The ledger's bound is replayed.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import click

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.bench.journal import Journal
from edgespec.bench.plan import Amount
from edgespec.bench.session import Job
from edgespec.cli.bench import measured, show_outcome
from edgespec.cli.options import ModelFlags
from edgespec.cli.paint import choose_look
from edgespec.cli.screen import Screen
from edgespec.engine import GenerateOptions
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import DraftTree, chain
from tools.asking import reported

# No drafter is ever so sure.
CLAIM = 0.99
# Ids that every vocabulary has.
N_IDS = 256


class HostileDrafter:
    """Always proposes as much as it may."""

    name = "hostile"
    needs = Needs.TOKENS

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None: ...

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        tokens = [self._random.randrange(N_IDS) for _ in range(plan.max_nodes)]
        return chain(tokens, [CLAIM ** (1 + depth) for depth in range(plan.max_nodes)])

    def behind(self, sequence: SequenceId) -> int:
        return 0

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None: ...

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None: ...

    def end(self, sequence: SequenceId) -> None: ...


@click.command()
@click.option("--model", help="as for 'edgespec bench'; the starter model when not given")
@click.option("--prompts", required=True, type=click.Path(path_type=Path), help="as for 'edgespec bench'")
@click.option("--per-category", default=1, show_default=True, type=click.IntRange(1))
@click.option("--max-tokens", default=128, show_default=True, type=click.IntRange(1))
@click.option("--repeat", default=2, show_default=True, type=click.IntRange(1))
@click.option("--threads", type=click.IntRange(1))
@click.option("--out", type=click.Path(path_type=Path), help="keep every answer's figures here")
@click.option("--json", "as_json", is_flag=True)
def main(
    model: str | None,
    prompts: Path,
    per_category: int,
    max_tokens: int,
    repeat: int,
    threads: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure a drafter that lies. Wanted: a time ratio of at most 1.03, and a ledger that kept its bound."""
    options = GenerateOptions(max_tokens=max_tokens)
    job = Job(prompts, Amount(per_category, repeat), ("auto",), options, drafters=(HostileDrafter(),))
    flags = ModelFlags(
        None, threads, None, draft_model="none", draft_device="cpu", corpus=(), remember=False, offline=False
    )
    screen = Screen(choose_look(None))
    folder = out or Path(tempfile.mkdtemp(prefix="edgespec-hostile-"))
    with reported():
        outcome = measured(job, model, flags, folder, screen, Journal())
        show_outcome(outcome, screen, as_json)


if __name__ == "__main__":
    main()
