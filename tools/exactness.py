"""Shows that drafting changes no answer: exact mode token for token, fast mode but for ties of rounding.

    python tools/exactness.py --prompts questions.jsonl --json exactness.json

For every question the answers with drafting off and with lookup are compared in exact mode, greedy and at temperature
0.8, and in fast mode, where the first difference is judged by the replay rule (`edgespec.check`). Exit code 1 says
that an exact answer differed or that a difference was a bug. With --json each comparison is kept in a .jsonl file
beside it as soon as it is made; a rerun with the same settings goes on after the last one.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import click

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.backend.llama.native import library_fingerprint
from edgespec.backend.probe import model_fingerprint
from edgespec.bench.prompts import Prompt
from edgespec.check import compare as compared
from edgespec.check.compare import Comparer
from edgespec.engine import DraftChoice, Engine, EngineOptions, GenerateOptions
from edgespec.engine.core import Extras
from edgespec.errors import BadInput
from edgespec.records import write_atomically
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from tools.asking import load_questions, reported

SEED = 20250


class Mode(str, Enum):
    EXACT_GREEDY = "exact, greedy"
    EXACT_WARM = "exact, temperature 0.8"
    FAST_GREEDY = "fast, greedy"

    @property
    def exact(self) -> bool:
        return self is not Mode.FAST_GREEDY

    @property
    def sampling(self) -> SamplingSettings:
        return SamplingSettings(temperature=0.8 if self is Mode.EXACT_WARM else 0.0, seed=SEED)


class Result(str, Enum):
    """mismatch: exact answers that differ. undecided: others took the cores, so no replay can tell."""

    IDENTICAL = "identical"
    TIE = "tie"
    BUG = "bug"
    UNDECIDED = "undecided"
    MISMATCH = "mismatch"


FAILURES = (Result.BUG, Result.MISMATCH)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question in one mode. detail: the first difference, in words; "" when there is none."""

    question: str
    category: str
    mode: Mode
    result: Result
    n_prompt: int
    n_tokens: int
    n_passes_plain: int
    n_passes_drafted: int
    detail: str


def compare(comparer: Comparer, question: Prompt, mode: Mode, max_tokens: int) -> Comparison:
    """The question answered with lookup and without. Raises the engine's errors."""
    options = GenerateOptions(mode.sampling, max_tokens, exact=mode.exact, draft=DraftChoice.LOOKUP)
    found = comparer.compare(Prompt(question.id, question.category, question.text), options)
    return Comparison(
        question.id,
        question.category,
        mode,
        result_of(mode, found.result),
        found.n_prompt,
        found.n_tokens,
        found.n_passes_plain,
        found.n_passes_drafted,
        found.difference.line if found.difference else "",
    )


def result_of(mode: Mode, found: compared.Result) -> Result:
    """In exact mode a bug has a name of its own."""
    return Result.MISMATCH if mode.exact and found is compared.Result.BUG else Result(found.value)


# -- what is kept ---------------------------------------------------------------------------------------------------


class Journal:
    """Comparisons made so far, one JSON line each after a line of settings. Without a path they are kept in memory.

    Raises BadInput when the file was written with other settings. A last line cut short by a crash is dropped.
    """

    def __init__(self, path: Path | None, settings: dict[str, str]) -> None:
        self.comparisons: list[Comparison] = []
        self._path = path
        if path is None:
            return
        lines = _whole_lines(path)
        if lines and json.loads(lines[0]) != settings:
            raise BadInput(f"{path}", "it holds results with other settings", "remove it or name another --json file")
        self.comparisons = [_comparison(line) for line in lines[1:]]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, "".join(f"{line}\n" for line in lines or [json.dumps(settings)]))

    def add(self, one: Comparison) -> None:
        self.comparisons.append(one)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(one)) + "\n")

    def missing(self, questions: Iterable[Prompt]) -> list[tuple[Prompt, Mode]]:
        known = {(one.question, one.mode) for one in self.comparisons}
        return [(question, mode) for question in questions for mode in Mode if (question.id, mode) not in known]


def _whole_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return lines[:-1]  # what follows the last line break is nothing, or a line that was cut short


def _comparison(line: str) -> Comparison:
    raw = json.loads(line)
    return Comparison(**{**raw, "mode": Mode(raw["mode"]), "result": Result(raw["result"])})


# -- what is shown --------------------------------------------------------------------------------------------------


def counts(comparisons: Iterable[Comparison]) -> dict[str, dict[str, int]]:
    """By mode: how many questions, and how many ended in each result."""
    listed = list(comparisons)
    return {
        mode.value: {
            "prompts": sum(1 for one in listed if one.mode is mode),
            **{result.value: sum(1 for one in listed if (one.mode, one.result) == (mode, result)) for result in Result},
        }
        for mode in Mode
    }


def table(comparisons: list[Comparison]) -> str:
    """The counts in columns, then every difference on a line of its own."""
    found = counts(comparisons)
    names = list(next(iter(found.values())))
    lines = ["".join([f"{'':<24}", *(f"{name:>11}" for name in names)])]
    lines += ["".join([f"{mode:<24}", *(f"{row[name]:>11}" for name in names)]) for mode, row in found.items()]
    lines += [f"{o.question} ({o.category}, {o.mode.value}): {o.detail}" for o in comparisons if o.detail]
    return "\n".join(lines)


@click.command()
@click.option("--prompts", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--model", help="as for 'edgespec chat'; the starter model when not given")
@click.option("--n-prompts", default=40, show_default=True, type=click.IntRange(1))
@click.option("--max-tokens", default=200, show_default=True, type=click.IntRange(1))
@click.option("--threads", type=click.IntRange(1), help="of the engine; all cores when not given")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="write the results here")
def main(
    prompts: Path, model: str | None, n_prompts: int, max_tokens: int, threads: int | None, json_path: Path | None
) -> None:
    """Compare answers with and without drafting; exit code 1 if drafting changed one beyond a tie of rounding."""
    with reported():
        questions = load_questions(prompts, n_prompts)
        # Drafting wherever there is a guess, also where it would not pay: there is the more to find.
        always = Extras(policy=FixedPolicy())
        with Engine.open(model, EngineOptions(threads=threads), extras=always) as engine:
            settings = {
                "model": model_fingerprint(engine.header.path),
                "build": library_fingerprint(),
                "engine": engine.settings.to_json(),
                "max_tokens": str(max_tokens),
                "prompts": hashlib.sha256(prompts.read_bytes()).hexdigest()[:16],
            }
            journal = Journal(json_path.with_suffix(".jsonl") if json_path else None, settings)
            _fill(journal, engine, questions, max_tokens)
        asked = {question.id for question in questions}
        comparisons = [one for one in journal.comparisons if one.question in asked]
        click.echo(table(comparisons))
        if json_path is not None:
            listed = [asdict(one) for one in comparisons]
            results = {"settings": settings, "counts": counts(comparisons), "comparisons": listed}
            write_atomically(json_path, json.dumps(results, indent=1) + "\n")
    sys.exit(1 if any(one.result in FAILURES for one in comparisons) else 0)


def _fill(journal: Journal, engine: Engine, questions: list[Prompt], max_tokens: int) -> None:
    missing = journal.missing(questions)
    label = f"{len(questions)} questions of {len({q.category for q in questions})} categories"
    with (
        Comparer(engine) as comparer,
        click.progressbar(missing, label=label, file=sys.stderr) as left,
    ):
        for question, mode in left:
            journal.add(compare(comparer, question, mode, max_tokens))


if __name__ == "__main__":
    main()
