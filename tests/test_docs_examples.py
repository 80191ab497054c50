"""Every example in the documentation is run as it stands, against a real file of a toy model."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.toy_start import ROOT, environment, write_start

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README_SECTION = re.compile(r"^### From Python\n(.*?)^## ", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """docs/api.md, or the README's section about Python."""
    text = (ROOT / name).read_text("utf-8")
    if name != "README.md":
        return text
    section = README_SECTION.search(text)
    assert section is not None
    return section[1]


def examples() -> dict[str, str]:
    """By page and number."""
    found = {}
    for name in ("docs/api.md", "README.md"):
        for number, match in enumerate(FENCE.finditer(page(name)), 1):
            found[f"{name} {number}"] = match[2]
    return found


EXAMPLES = examples()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    root = tmp_path_factory.mktemp("start")
    work = write_start(root)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "tests" / "run_examples.py")],
        input=json.dumps(list(EXAMPLES.items())),
        cwd=work,
        env=environment(root),
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}


def test_there_are_examples_on_both_pages_and_all_are_python() -> None:
    assert {name.split()[0] for name in EXAMPLES} == {"docs/api.md", "README.md"}
    assert {match[1] for name in ("docs/api.md", "README.md") for match in FENCE.finditer(page(name))} == {"python"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs_and_leaves_nothing_running(name: str, results: dict[str, dict[str, object]]) -> None:
    assert results[name]["error"] == ""
    assert results[name]["printed"]
    assert results[name]["threads"] == []
