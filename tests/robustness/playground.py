"""A small dataset whose order can be learned, and the command that trains on it, for campaigns."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from helpers import ROOT

SMALL = {
    "hidden_size": 16,
    "inner_size": 32,
    "n_layers": 1,
    "n_heads": 1,
    "train_batch_size": 128,
    "show_progress": False,
    "state": "WARNING",
}
# run_recbole.py of the source tree
SCRIPT = ROOT / "run_recbole.py"


def write_ring(folder: Path, name: str, users: int = 80, items: int = 30, alike: bool = False) -> Path:
    """Write ``<name>.inter``: users who walk over a ring of items, now and then skipping two.

    Args:
        folder: the data path; the dataset gets a folder in it.
        name: the dataset.
        users: how many.
        items: how many.
        alike: every user walks the same way.
    """
    lines = ["user_id:token\titem_id:token\ttimestamp:float"]
    for user in range(users):
        rng = np.random.default_rng(0 if alike else user)
        item = int(rng.integers(items))
        for time in range(int(rng.integers(6, 16))):
            lines.append(f"u{user}\ti{item}\t{time}")
            item = (item + (3 if rng.random() < 0.2 else 1)) % items
    file = folder / name / f"{name}.inter"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def training_command(dataset: str, **keys: object) -> list[str]:
    """``run_recbole.py`` for AsarSASRec on a small model, with these keys."""
    given = {"model": "AsarSASRec", "dataset": dataset, **SMALL, **keys}
    return [sys.executable, str(SCRIPT), *(f"--{key}={value}" for key, value in given.items())]
