"""Measures suffix decoding on answers that share a form: without and with past answers of the same kind to draft from.

    python tools/templates.py --prompts prompts.jsonl --threads 1

The first half of each family of tasks is answered plainly, and these answers are kept as `--remember` keeps them. The
other half is measured as `edgespec bench` measures: plain decoding, suffix decoding that knows the request alone
("cold"), and suffix decoding that has the kept answers too ("warm"), in turns whose order is reversed. Prompts of a
file whose answers repeat nothing show in the same way what drafting costs where there is nothing to win.

All arms share one engine, but nothing that is learnt: each suffix drafter has a policy of its own, and every
measurement begins with new ones. Nothing is kept of them either.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress as Bar

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.backend.llama.native import library_fingerprint
from edgespec.backend.probe import model_fingerprint
from edgespec.bench.arms import EngineArm
from edgespec.bench.asking import Asking
from edgespec.bench.measure import Progress, left_out, measure
from edgespec.bench.place import Place, code_fingerprint, load_now, place
from edgespec.bench.plan import Amount
from edgespec.bench.prompts import Prompts, load_prompts
from edgespec.bench.ratios import Figures
from edgespec.bench.report import Report, as_json, as_table, report
from edgespec.bench.runs import Identity, RunFolder
from edgespec.choice import DraftChoice
from edgespec.draft.corpus import Corpus
from edgespec.engine import Engine, EngineOptions, Extras, GenerateOptions
from edgespec.engine.finding import find_model
from edgespec.engine.opening import open_model
from edgespec.engine.shelf import keep_answer
from edgespec.errors import BadInput
from edgespec.events import Notice
from edgespec.library.resolve import ResolvedModel
from tools.asking import reported
from tools.switched import SwitchedArm, SwitchedSuffix
from tools.template_tasks import families

PLAIN, COLD, WARM = ARMS = ("off", "cold", "warm")
# Where a drafter is handed in, a choice only says whose policy decides: these two learn apart.
_CHOICES = {
    PLAIN: DraftChoice.OFF,
    COLD: DraftChoice.parse("suffix"),
    WARM: DraftChoice.parse("lookup,suffix"),
}
# What a table may take where nobody looks at a terminal, so that its rows stay whole in a pipe.
_PIPE_COLUMNS = 200


class Bench:
    """One opened engine with its arms. `say` gets what the user should know. where: what it is measured with."""

    def __init__(
        self, engine: Engine, suffix: SwitchedSuffix, options: GenerateOptions, load: float, say: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._asking = Asking(engine, engine.card)
        self._options = replace(options, stop=(*options.stop, *self._asking.stops))
        self._say = say
        self.where: Place = place(engine.name, library_fingerprint(), engine.settings, load)
        self._arms = tuple(
            SwitchedArm(EngineArm(engine, name, replace(self._options, draft=choice)), suffix, name == WARM)
            for name, choice in _CHOICES.items()
        )

    def learn(self, prompts: Prompts, corpus: Corpus, bar: Bar) -> None:
        """Answer plainly and keep the answers, as a user's past answers are kept. Raises the engine's errors."""
        plain, listed = self._arms[0], [prompt for group in prompts.values() for prompt in group]
        task = bar.add_task("past answers", total=len(listed))
        for prompt in listed:
            tokens = self._asking.tokens(prompt)
            keep_answer(corpus, tokens, plain.answer(tokens).token_ids)
            bar.update(task, advance=1, refresh=True)

    def measure(self, prompts: Prompts, kept: Prompts, amount: Amount, out: Path, bar: Bar) -> Report:
        """What `out` lacks. kept: what the corpus holds the answers of.

        Raises the engine's errors and BadInput for a folder with another measurement.
        """
        room = self._engine.settings.n_ctx - self._options.max_tokens
        fitting, n_longer = left_out(prompts, self._asking.tokens, room)
        if n_longer:
            self._say(f"prompts left out, too long for the context with the answer: {n_longer}")
        if not fitting:
            raise BadInput("--ctx-size", "no prompt fits with its answer", "raise it")
        folder = RunFolder(out, self._identity(prompts, kept))
        task = bar.add_task(out.name, total=None)

        def show(progress: Progress) -> None:
            bar.update(task, completed=progress.n_done, total=progress.n_in_all, refresh=True)

        def notify(notice: Notice) -> None:
            self._say(notice.message)

        measure(fitting, self._arms, amount, folder, self._asking.tokens, show, notify)
        return report(folder.runs, ARMS, out, folder.n_foreign, is_complete=True)

    def _identity(self, prompts: Prompts, kept: Prompts) -> Identity:
        engine, options, where = self._engine, self._options, self.where
        tuning = engine.tuning
        return Identity(
            model=model_fingerprint(engine.header.path),
            library=where.library,
            machine=where.machine,
            settings=engine.settings.to_json(),
            prompts=hashlib.sha256(repr((prompts, kept)).encode()).hexdigest()[:16],
            arms=ARMS,
            max_tokens=options.max_tokens,
            exact=options.exact,
            sampling=json.dumps(asdict(options.sampling), sort_keys=True),
            tuning=hashlib.sha256(tuning.to_text().encode()).hexdigest()[:16] if tuning else "untuned",
            code=code_fingerprint(),
            drafters=(COLD, WARM),
        )


@dataclass(frozen=True, slots=True)
class Job:
    """What both measurements share. `say` gets lines for the user."""

    model: ResolvedModel
    settings: EngineOptions
    options: GenerateOptions
    out: Path
    say: Callable[[str], None]


@contextmanager
def opened(job: Job, corpus: Corpus) -> Iterator[Bench]:
    """An engine that has learnt nothing and keeps nothing of what it learns. Raises EdgeSpecErrors."""
    notices: list[Notice] = []
    load, suffix = load_now(), SwitchedSuffix(corpus)
    model = open_model(job.model.path, job.settings, notices.append)
    with Engine(model, job.model.name, notices, Extras(drafters=(suffix,)), job.model.card) as engine:
        for notice in notices:
            job.say(notice.message)
        if engine.tuning is None:
            job.say("not tuned here: every round drafts a fixed number of tokens, also where it does not pay")
        yield Bench(engine, suffix, job.options, load, job.say)


def run(
    job: Job, corpus: Corpus, amounts: tuple[Amount, Amount], others: Prompts | None, bar: Bar
) -> tuple[dict[str, Report], Place]:
    """Fill the corpus, measure templates and then `others`; `amounts` of each, in which kept tasks count too."""
    kept, asked = families(amounts[0].per_category)
    with opened(job, corpus) as bench:
        bench.learn(kept, corpus, bar)
        reports = {"templates": bench.measure(asked, kept, amounts[0], job.out / "templates", bar)}
    if others is not None:
        with opened(job, corpus) as bench:
            reports["unlike"] = bench.measure(others, kept, amounts[1], job.out / "unlike", bar)
    return reports, bench.where


def unlike(path: Path, categories: str) -> Prompts:
    """The file's prompts of these categories. Raises BadInput."""
    prompts, names = load_prompts(path), [name.strip() for name in categories.split(",")]
    strange = [name for name in names if name not in prompts]
    if strange:
        known = ", ".join(prompts)
        raise BadInput(
            f"--categories {categories}", f"{path} has no prompts of {strange[0]!r}", f"choose among {known}"
        )
    return {name: prompts[name] for name in names}


def wanted_lines(found: dict[str, Report]) -> list[str]:
    """The figures that everything else is there to explain: of all answers, and of those that do not go in circles."""
    warm, of = _totals(found["templates"], WARM), "of all answers; without loops"
    lines = [f"warm on templates, {of}: {', '.join(f'{one.speedup:.2f}x' for one in warm)} (wanted: 1.5x)"]
    if "unlike" in found:
        ratios = ", ".join(f"{one.time_ratio:.3f}" for one in _totals(found["unlike"], COLD))
        lines.append(f"cold where nothing repeats, part of plain's time, {of}: {ratios} (wanted: at most 1.01)")
    return lines


def _totals(found: Report, arm: str) -> list[Figures]:
    return [part.overall[arm].total for part in (found.all, found.without_loops) if part.overall]


@click.command()
@click.option("--model", help="the starter model when not given")
@click.option(
    "--prompts", type=click.Path(path_type=Path), help="whose answers repeat nothing; left out when not given"
)
@click.option("--categories", default="writing,roleplay", show_default=True, help="of --prompts")
@click.option("--per-family", default=10, show_default=True, type=click.IntRange(2, 10), help="tasks, one half is kept")
@click.option("--per-category", default=5, show_default=True, type=click.IntRange(1), help="prompts of --prompts")
@click.option("--max-tokens", default=96, show_default=True, type=click.IntRange(1))
@click.option("--repeat", default=2, show_default=True, type=click.IntRange(1))
@click.option("--exact", is_flag=True)
@click.option("--ctx-size", default=2048, show_default=True, type=click.IntRange(64))
@click.option("--threads", type=click.IntRange(1))
@click.option("--out", type=click.Path(path_type=Path), help="keep every answer's figures here, and go on from them")
@click.option("--json", "as_json_text", is_flag=True)
def main(
    model: str | None,
    prompts: Path | None,
    categories: str,
    per_family: int,
    per_category: int,
    max_tokens: int,
    repeat: int,
    exact: bool,
    ctx_size: int,
    threads: int | None,
    out: Path | None,
    as_json_text: bool,
) -> None:
    """Measure suffix decoding with past answers on templates, and without them where nothing repeats."""
    console = Console(stderr=True)

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    with reported():
        others = unlike(prompts, categories) if prompts is not None else None
        folder = out or Path(tempfile.mkdtemp(prefix="edgespec-templates-"))
        say(f"figures of every answer: {folder}; the same command with --out goes on from there")
        options = GenerateOptions(max_tokens=max_tokens, exact=exact)
        job = Job(find_model(model), EngineOptions(ctx_size, threads), options, folder, say)
        corpus, amounts = Corpus(), (Amount(per_family, repeat), Amount(per_category, repeat))
        with Bar(console=console, auto_refresh=False) as bar:
            reports, where = run(job, corpus, amounts, others, bar)
    show(reports, corpus, where, as_json_text)


def show(reports: dict[str, Report], corpus: Corpus, where: Place, as_json_text: bool) -> None:
    if as_json_text:
        parts = {name: as_json(one) for name, one in reports.items()}
        kept = {"texts": corpus.n_texts, "tokens": corpus.n_tokens}
        click.echo(json.dumps({**parts, "corpus": kept, "machine": where.line()}))
        return
    console = Console() if sys.stdout.isatty() else Console(width=_PIPE_COLUMNS)
    for one in reports.values():
        console.print(as_table(one))
    for line in (*wanted_lines(reports), f"{corpus.n_texts} past answers, {corpus.n_tokens} tokens", where.line()):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


if __name__ == "__main__":
    main()
