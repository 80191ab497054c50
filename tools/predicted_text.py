"""How much faster a predicted text makes an answer: with and without it, interleaved in one run.

    python tools/predicted_text.py --prompts questions.jsonl --threads 1

The prediction is the model's own plain answer in which about every 40th word was replaced. Decoding without drafting
(A) and with the prediction (B) are timed in the order A B B A, over and over, in fast and in exact mode; a ratio
compares the seconds per token of the two A with those of the two B of one repeat.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.bench.prompts import Prompt
from edgespec.engine import DraftChoice, Engine, EngineOptions, Extras, GenerateOptions
from edgespec.events import Completion
from edgespec.records import write_atomically
from edgespec.spec.policy import FixedPolicy
from tools.asking import Asker, load_questions, reported

SEED = 20250
# One word in this many is replaced, give or take a quarter.
WORDS_BETWEEN = 40


@dataclass(frozen=True, slots=True)
class Answers:
    """The timed answers to one question in one mode: A B B A of each repeat in a row."""

    question: str
    exact: bool
    plain: tuple[Completion, ...]
    predicted: tuple[Completion, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one question, or all of them, show in one mode. Ratios: time per token without / with the prediction.

    same_tokens: every answer has the same token ids, as exact mode promises. plain_ms: milliseconds per token.
    """

    question: str
    mode: str
    median_ratio: float
    min_ratio: float
    max_ratio: float
    tokens_per_pass: float
    acceptance: float
    plain_ms: float
    n_tokens: int
    same_tokens: bool


def damaged(text: str, random_: random.Random) -> str:
    """`text` with about every 40th word replaced by another word of the same text; spaces and lines stay."""
    parts = re.split(r"(\s+)", text)
    places = [i for i, part in enumerate(parts) if part and not part.isspace()]
    words = sorted({parts[place] for place in places})
    if len(words) < 2:
        return text
    nth = random_.randrange(WORDS_BETWEEN // 4, WORDS_BETWEEN)
    while nth < len(places):
        place = places[nth]
        parts[place] = random_.choice([word for word in words if word != parts[place]])
        nth += random_.randrange(WORDS_BETWEEN * 3 // 4, WORDS_BETWEEN * 5 // 4 + 1)
    return "".join(parts)


class Timer:
    """Asks one engine."""

    def __init__(self, engine: Engine, max_tokens: int) -> None:
        self._asker = Asker(engine)
        self._max_tokens = max_tokens

    def prediction(self, question: Prompt) -> str:
        """The model's own plain answer, damaged the same way every time.

        In exact mode, so that it is what passes of several rows say; a tie of rounding would make another text of it.
        """
        text = self._ask(question, True, "").text
        return damaged(text, random.Random(f"{SEED} {question.id}"))

    def time(self, question: Prompt, prediction: str, exact: bool, n_repeats: int) -> Answers:
        plain: list[Completion] = []
        predicted: list[Completion] = []
        for _ in range(n_repeats):
            plain.append(self._ask(question, exact, ""))
            predicted.append(self._ask(question, exact, prediction))
            predicted.append(self._ask(question, exact, prediction))
            plain.append(self._ask(question, exact, ""))
        return Answers(question.id, exact, tuple(plain), tuple(predicted))

    def _ask(self, question: Prompt, exact: bool, prediction: str) -> Completion:
        draft = DraftChoice.AUTO if prediction else DraftChoice.OFF
        options = GenerateOptions(max_tokens=self._max_tokens, exact=exact, draft=draft, prediction=prediction)
        return self._asker.ask(self._asker.tokens(question.text), options)[1]


def figures(name: str, answers: Sequence[Answers]) -> Figures:
    """Of one question's answers, or of those of several in the same mode."""
    found = [ratio for one in answers for ratio in ratios(one)]
    predicted = [completion for one in answers for completion in one.predicted]
    plain = [completion for one in answers for completion in one.plain]
    passes = sum(completion.timings.passes for completion in predicted)
    drafted = sum(completion.timings.draft_n for completion in predicted)
    return Figures(
        name,
        "exact" if answers[0].exact else "fast",
        statistics.median(found),
        min(found),
        max(found),
        sum(map(_n_tokens, predicted)) / passes,
        sum(completion.timings.draft_n_accepted for completion in predicted) / max(1, drafted),
        1e3 * statistics.median(map(seconds_per_token, plain)),
        sum(_n_tokens(one.plain[0]) for one in answers),
        all(len({c.token_ids for c in (*one.plain, *one.predicted)}) == 1 for one in answers),
    )


def ratios(one: Answers) -> list[float]:
    """One for each repeat."""
    found: list[float] = []
    for first in range(0, len(one.plain), 2):
        slow, fast = (sum(map(seconds_per_token, half[first : first + 2])) for half in (one.plain, one.predicted))
        found.append(slow / fast)
    return found


def seconds_per_token(completion: Completion) -> float:
    return completion.timings.decode_seconds / _n_tokens(completion)


def _n_tokens(completion: Completion) -> int:
    """One at least: a model may end at once."""
    return max(1, len(completion.token_ids))


def table(found: Iterable[Figures]) -> str:
    names = ("ratio", "min", "max", "tokens/pass", "accepted", "plain ms", "tokens", "same tokens")
    lines = [f"{'question':<10}{'mode':<7}" + "".join(f"{name:>13}" for name in names)]
    for one in found:
        numbers = (one.median_ratio, one.min_ratio, one.max_ratio, one.tokens_per_pass, one.acceptance, one.plain_ms)
        cells = "".join(f"{number:>13.2f}" for number in numbers)
        same = "yes" if one.same_tokens else "no"
        lines.append(f"{one.question:<10}{one.mode:<7}{cells}{one.n_tokens:>13}{same:>13}")
    return "\n".join(lines)


@click.command()
@click.option("--prompts", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--model", help="as for 'edgespec chat'; the starter model when not given")
@click.option("--n-prompts", default=4, show_default=True, type=click.IntRange(1))
@click.option("--max-tokens", default=200, show_default=True, type=click.IntRange(1))
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(1), help="of A B B A, for each question")
@click.option("--max-nodes", default=FixedPolicy().max_nodes, show_default=True, type=click.IntRange(1))
@click.option("--threads", type=click.IntRange(1), help="of the engine; all cores when not given")
@click.option("--no-extra-buffers", is_flag=True, help="without weight repacking and AMX")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="write the results here")
def main(
    prompts: Path,
    model: str | None,
    n_prompts: int,
    max_tokens: int,
    repeats: int,
    max_nodes: int,
    threads: int | None,
    no_extra_buffers: bool,
    json_path: Path | None,
) -> None:
    """Time answers with and without a predicted text; exit code 1 if exact answers differ."""
    with reported():
        questions = load_questions(prompts, n_prompts)
        options = EngineOptions(threads=threads, extra_buffers=not no_extra_buffers)
        with Engine.open(model, options, extras=Extras(FixedPolicy(max_nodes=max_nodes))) as engine:
            settings = engine.settings
            answers = _time_all(Timer(engine, max_tokens), questions, repeats)
    found = summary(answers)
    click.echo(f"{settings.n_threads} threads, extra buffers {'on' if settings.extra_buffers else 'off'}, ", nl=False)
    click.echo(f"up to {max_nodes} nodes a pass; ratio: time per token without / with the prediction")
    click.echo(table(found))
    if json_path is not None:
        results = {"settings": settings.to_json(), "max_nodes": max_nodes, "figures": [asdict(one) for one in found]}
        write_atomically(json_path, json.dumps(results, indent=1) + "\n")
    sys.exit(0 if all(one.same_tokens for one in found if one.mode == "exact") else 1)


def _time_all(timer: Timer, questions: list[Prompt], n_repeats: int) -> list[Answers]:
    answers: list[Answers] = []
    cases = [(question, exact) for question in questions for exact in (False, True)]
    with click.progressbar(cases, label=f"{len(questions)} questions, fast and exact", file=sys.stderr) as left:
        for question, exact in left:
            answers.append(timer.time(question, timer.prediction(question), exact, n_repeats))
    return answers


def summary(answers: Sequence[Answers]) -> list[Figures]:
    """Each question in each mode, then all together in each mode."""
    found = [figures(one.question, [one]) for one in answers]
    for exact in (False, True):
        found.append(figures("all", [one for one in answers if one.exact == exact]))
    return found


if __name__ == "__main__":
    main()
