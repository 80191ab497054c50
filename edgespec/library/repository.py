"""Models of Hugging Face repositories by name, hf:user/repo[:quant]: which file is meant, and how it gets here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import BadInput, ModelNotFound
from edgespec.library import hub
from edgespec.library.fetch import require_network
from edgespec.library.quant import quantisation_in_name
from edgespec.library.reporter import Reporter
from edgespec.library.split import is_model_name, part_names
from edgespec.library.store import Store
from edgespec.library.units import readable_bytes

PREFIX = "hf:"
_NAME = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<choice>.+))?")

# What is taken when nothing is asked for: the usual balance of size and quality first, then its neighbours.
_PREFERRED = ("Q4_K_M", "Q4_K_S", "IQ4_XS", "Q4_0", "Q4_1", "Q5_K_M", "Q5_K_S", "Q6_K", "Q8_0", "Q3_K_M", "BF16", "F16")


@dataclass(frozen=True, slots=True)
class RepositoryModel:
    """`choice` is a quantisation or a file name; None leaves it to the preference above."""

    repo: str
    choice: str | None

    def __str__(self) -> str:
        return f"{PREFIX}{self.repo}" + (f":{self.choice}" if self.choice else "")


def parse_repository_model(argument: str) -> RepositoryModel:
    match = _NAME.fullmatch(argument)
    if match is None:
        raise BadInput(f"model '{argument}'", "it is not of the form hf:user/repo[:quant]", "correct the name")
    return RepositoryModel(match["repo"], match["choice"])


def choose_file(names: Iterable[str], model: RepositoryModel) -> str:
    """The GGUF meant by `model`, the first part of a split one. Raises ModelNotFound, naming what there is."""
    models = sorted(name for name in names if is_model_name(name.rpartition("/")[2]))
    quants = {name: quantisation_in_name(name) for name in models}
    if model.choice is None:
        return _preferred(quants, model)
    wanted = model.choice.lower()
    for name in models:
        if wanted in (name.lower(), quants[name].lower()):
            return name
    there = ", ".join(sorted({quant or name for name, quant in quants.items()})) or "no GGUF at all"
    raise ModelNotFound(str(model), f"the repository has no '{model.choice}'", f"it has {there}")


def fetch_repository_model(model: RepositoryModel, store: Store, reporter: Reporter, *, offline: bool) -> Path:
    """Path in the shared cache, downloaded if need be; all parts of a split model.

    Raises NetworkUnavailable, MissingExtra, ModelNotFound, DiskFull. `store` only answers how much space is free.
    """
    require_network(str(model), offline)
    sizes = {file.name: file.size_bytes for file in hub.repository_files(model.repo)}
    name = choose_file(sizes, model)
    folder, slash, last = name.rpartition("/")
    parts = [folder + slash + part for part in part_names(last)]
    n_bytes = sum(sizes.get(part, 0) for part in parts)
    reporter.announce(
        f"Downloading {name}, {readable_bytes(n_bytes)}, from the Hugging Face repository {model.repo} "
        "into the shared Hugging Face cache."
    )
    store.require_space(str(model), n_bytes, hub.cache_folder(), "HF_HOME")
    paths, n_before = [], 0
    for part in parts:
        paths.append(hub.download(model.repo, part, _shifted(reporter, n_before, n_bytes)))
        n_before += sizes.get(part, 0)
    return paths[0]


def _preferred(quants: dict[str, str], model: RepositoryModel) -> str:
    if not quants:
        raise ModelNotFound(str(model), "the repository has no GGUF file", "look for one whose name ends in -GGUF")
    ranks = {quant: rank for rank, quant in enumerate(_PREFERRED)}
    return min(quants, key=lambda name: (ranks.get(quants[name].removeprefix("UD-"), len(ranks)), name))


def _shifted(reporter: Reporter, n_before: int, n_total: int) -> hub.Progress:
    return lambda n_done, n_of_this: reporter.progress(n_before + n_done, n_total or n_of_this)
