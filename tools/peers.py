"""edgespec beside what a user would take instead: the same prompts, greedy, interleaved in one run.

    python tools/build_server.py
    python tools/peers.py --prompts questions.jsonl --n-prompts 26 --n-long 8 --json peers.json

llama-cpp-python with its defaults, without and with its prompt lookup (10 guessed tokens, its default, and 2, which it
recommends for processors); llama.cpp's own server with each of its draft types that need no second model, with its
defaults and with the settings that edgespec chose; edgespec without drafting and with what it chooses by itself. Each
peer has a process of its own and gets the same token ids; all read the whole prompt every time and stop at the same
tokens. Every answer is kept on disk at once, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console

from edgespec.backend import machine
from edgespec.backend.llama.native import library_fingerprint
from edgespec.backend.probe import model_fingerprint
from edgespec.bench.place import code_fingerprint
from edgespec.config import cache_dir
from edgespec.engine import DraftChoice
from edgespec.errors import BadInput
from edgespec.records import write_atomically
from tools.asking import reported
from tools.build_server import PACKAGE, built_program
from tools.peer import Peer
from tools.peer_child import EDGESPEC, LIBRARY, Setup
from tools.peer_figures import Figures, total, views
from tools.peer_process import ProcessPeer
from tools.peer_prompts import Asked, prepare
from tools.peer_rows import Row, RowFile
from tools.peer_run import Turn, measure, turns
from tools.peer_server import SPEC_TYPES, ByLength, Server, ServerPeer, default_flags, tuned_flags
from tools.peer_table import Section, table, to_data

PLAIN = "edgespec-off"
AUTO = "edgespec-auto"
# Idle peers may use this part of a measured answer's time before it is said.
IDLE_LIMIT = 0.02
# A cell must not be cut where the output is a file or a narrow window.
_WIDTH = 200


@dataclass(frozen=True, slots=True)
class Ways:
    """How peers are started. threads: for every one of them, None leaves each its default."""

    threads: int | None
    server: Path | None
    patience_seconds: float


def make_peers(asked: Asked, ways: Ways) -> list[Peer]:
    """All that can run; without a server program those that need none."""
    found: list[Peer] = [ProcessPeer(name, setup, ways.patience_seconds) for name, setup in setups(asked, ways)]
    if ways.server is None:
        return found
    for spec in SPEC_TYPES:
        found.append(server_peer(f"server-{spec}", asked, ways, spec, default_flags(ways.threads)))
    for spec in SPEC_TYPES:
        found.append(tuned_peer(f"tuned-server-{spec}", asked, ways, spec))
    return found


def server_peer(name: str, asked: Asked, ways: Ways, spec: str, flags: tuple[str, ...]) -> ServerPeer:
    server = Server((str(ways.server),), asked.model, spec, flags, asked.end_tokens)
    return ServerPeer(name, server, ways.patience_seconds)


def tuned_peer(name: str, asked: Asked, ways: Ways, spec: str) -> Peer:
    """With the settings that the engine takes for a text of the same length."""
    distinct = dict.fromkeys(one.settings for one in asked.arranged)
    made = {settings: server_peer(name, asked, ways, spec, tuned_flags(settings)) for settings in distinct}
    if len(made) == 1:
        return next(iter(made.values()))
    return ByLength(name, [(one.up_to, made[one.settings]) for one in asked.arranged], asked.warm_up)


def setups(asked: Asked, ways: Ways) -> list[tuple[str, Setup]]:
    def setup(library: str, n_lookup: int = 0, draft: DraftChoice = DraftChoice.OFF) -> Setup:
        ends = tuple(sorted(asked.end_tokens))
        return Setup(library, str(asked.model), asked.settings.n_ctx, ends, ways.threads, n_lookup, draft)

    return [
        ("llama", setup(LIBRARY)),
        ("llama-lookup", setup(LIBRARY, n_lookup=10)),
        ("llama-lookup-2", setup(LIBRARY, n_lookup=2)),
        (PLAIN, setup(EDGESPEC)),
        (AUTO, setup(EDGESPEC, draft=DraftChoice.AUTO)),
    ]


def chosen(peers: list[Peer], names: str) -> list[Peer]:
    """Of each comma-separated name the peer with that name, else those whose names begin so; "" means all. Raises
    BadInput for a name that fits none.
    """
    known = [peer.name for peer in peers]
    wanted: set[str] = set()
    for name in filter(None, names.split(",")):
        found = {name} if name in known else {one for one in known if one.startswith(name)}
        if not found:
            raise BadInput(f"--peers {name}", "there is no such peer", f"choose from {', '.join(known)}")
        wanted |= found
    return [peer for peer in peers if not names or peer.name in wanted]


def identity(asked: Asked, ways: Ways, budget: int) -> dict[str, str]:
    """What must be the same for answers to be compared."""
    server = ways.server.stat() if ways.server else None
    return {
        "edgespec": code_fingerprint(),
        "model": model_fingerprint(asked.model),
        "machine": machine.describe(),
        "library": library_fingerprint(),
        "settings": asked.settings.to_json(),
        "tuning": asked.tuning,
        "server": f"{ways.server}|{server.st_mtime_ns}|{server.st_size}" if server else "none",
        "threads": str(ways.threads),
        "max_tokens": str(budget),
    }


def rows_path(facts: dict[str, str]) -> Path:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return cache_dir() / "peers" / f"{digest}.jsonl"


def library() -> str:
    return f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"


def server_program(given: Path | None, names: str) -> Path | None:
    """Raises BadInput when servers are wanted and none is built."""
    program = given or built_program()
    if program is None and (not names or "server" in names):
        raise BadInput(
            "llama-server", "it is not built", "run 'python tools/build_server.py' or leave it out (--peers)"
        )
    return program


def sections(rows: list[Row], names: list[str]) -> list[Section]:
    found: list[Section] = []
    for view in views(rows):
        figures = Figures(rows, view, PLAIN, AUTO)
        found.append((view, [figures.of(name) for name in names]))
    return found


def failures(rows: list[Row]) -> list[str]:
    """One line for each peer and reason."""
    counts = Counter((row.key.peer, row.failure) for row in rows if row.answer is None)
    return [f"{failure} ({n} of its answers missing)" for (_, failure), n in sorted(counts.items())]


def idle_share(rows: list[Row]) -> float:
    """Processor time that waiting peers used, against the time of the measured answers."""
    answered = [row for row in rows if row.answer is not None]
    seconds = sum(total(row.answer)[1] for row in answered if row.answer is not None)
    return sum(row.others_cpu_seconds for row in answered) / seconds if seconds else 0.0


def machine_line(asked: Asked) -> str:
    chosen_ = [
        f"flash attention {one.settings.flash_attention.value}, {one.settings.n_threads} threads"
        + (f" (texts of up to {one.up_to} tokens)" if len(asked.arranged) > 1 else "")
        for one in asked.arranged
    ]
    return f"{machine.describe()}; {library()}; {asked.model.name}; edgespec chose {', '.join(chosen_)}"


def run(asked: Asked, peers: list[Peer], wanted: list[Turn], budget: int, rows: RowFile) -> None:
    label = f"{len(asked.prompts)} prompts, {len(peers)} peers"
    with (
        closing(measure(wanted, peers, asked.warm_up, budget, rows)) as done,
        click.progressbar(done, length=len(wanted), label=label, file=sys.stderr) as bar,
    ):
        for row in bar:
            if row is not None and row.failure:
                click.echo(f"\n{row.prompt_id}: {row.failure}", err=True)


def report(asked: Asked, peers: list[Peer], rows: list[Row], json_path: Path | None) -> None:
    found = sections(rows, [peer.name for peer in peers])
    console = Console()
    console.print(machine_line(asked), highlight=False, soft_wrap=True)
    Console(width=max(_WIDTH, console.width)).print(table(found, PLAIN, AUTO))
    missing, idle = failures(rows), idle_share(rows)
    for line in missing:
        click.echo(f"missing: {line}", err=True)
    if idle > IDLE_LIMIT:
        click.echo(f"waiting peers used {idle:.0%} of the measured time; the figures are not to be trusted", err=True)
    if json_path is not None:
        data = {
            "machine": machine_line(asked),
            "settings": json.loads(asked.settings.to_json()),
            "server_flags": {peer.name: peer.described() for peer in peers if isinstance(peer, ServerPeer | ByLength)},
            "views": to_data(found),
            "failures": missing,
            "idle_share": idle,
        }
        write_atomically(json_path, json.dumps(data, indent=1) + "\n")


@click.command()
@click.option("--prompts", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--model", help="as for 'edgespec chat'; the starter model when not given")
@click.option("--n-prompts", default=26, show_default=True, type=click.IntRange(0), help="in turn from every category")
@click.option("--n-long", default=0, show_default=True, type=click.IntRange(0), help="more, of 900 tokens and above")
@click.option("--max-tokens", default=128, show_default=True, type=click.IntRange(1))
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(1))
@click.option("--peers", "names", default="", help="names or beginnings, comma-separated; all if not given")
@click.option("--threads", type=click.IntRange(1), help="of every peer; each has its own default when not given")
@click.option("--server", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="another llama-server")
@click.option("--patience", default=300.0, show_default=True, type=click.FloatRange(1), help="seconds for one answer")
@click.option("--rows", "rows_at", type=click.Path(dir_okay=False, path_type=Path), help="keep the answers here")
@click.option("--fresh", is_flag=True, help="forget the answers of an earlier run")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="write the results here")
def main(
    prompts: Path,
    model: str | None,
    n_prompts: int,
    n_long: int,
    max_tokens: int,
    repeats: int,
    names: str,
    threads: int | None,
    server: Path | None,
    patience: float,
    rows_at: Path | None,
    fresh: bool,
    json_path: Path | None,
) -> None:
    """Compare edgespec with llama-cpp-python and llama.cpp's server on the same prompts."""
    with reported():
        program = server_program(server, names)
        asked = prepare(model, threads, prompts, n_prompts, n_long, max_tokens)
        ways = Ways(threads, program, patience)
        peers, facts = chosen(make_peers(asked, ways), names), identity(asked, ways, max_tokens)
        path = rows_at or rows_path(facts)
        if fresh:
            path.unlink(missing_ok=True)
        rows = RowFile(path, facts)
        wanted = turns(asked.prompts, [peer.name for peer in peers], repeats)
        click.echo(f"answers are kept in {path}", err=True)
        run(asked, peers, wanted, max_tokens, rows)
        report(asked, peers, rows.rows(turn.key for turn in wanted), json_path)


if __name__ == "__main__":
    main()
