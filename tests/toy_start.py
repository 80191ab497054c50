"""A home in which the starter model is a toy, so that programs that name no model, or that one, run in no time."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tests.library.toy_card import CARD_TEXT
from tools.make_toy_model import write_toy_model

ROOT = Path(__file__).resolve().parents[1]
STARTER = "smollm2-135m"


def write_start(root: Path) -> Path:
    """The home's folder is `root`/home; beside it lies the working folder `root`/work with model.gguf. Returns it."""
    work, models = root / "work", root / "home" / "data" / "models" / STARTER
    for folder in (work, models, root / "home" / "config" / "models"):
        folder.mkdir(parents=True)
    content = write_toy_model(work / "model.gguf").read_bytes()
    (models / "toy.gguf").write_bytes(content)
    text = CARD_TEXT.replace('id = "toy"', f'id = "{STARTER}"\ndefault = true')
    text = text.replace("0" * 64, hashlib.sha256(content).hexdigest()).replace("= 1000", f"= {len(content)}")
    (root / "home" / "config" / "models" / f"{STARTER}.toml").write_text(text, "utf-8")
    return work


def environment(root: Path) -> dict[str, str]:
    """Of a child process: that home, nothing of the user's, and no network. Threads that wait sleep: on a machine where
    other tests run, too, spinning ones would wait for seconds.
    """
    own = {"EDGESPEC_HOME": str(root / "home"), "EDGESPEC_OFFLINE": "1", "OMP_WAIT_POLICY": "passive"}
    places = {name: str(root / "user") for name in ("HOME", "USERPROFILE", "HF_HUB_CACHE", "OLLAMA_MODELS")}
    return {**os.environ, **places, **own, "QT_QPA_PLATFORM": "offscreen", "PYTHONIOENCODING": "utf-8"}
