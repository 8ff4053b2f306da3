"""Train RecTools' SASRec and write what it recommends; :mod:`benchmarks.peers` runs this.

``python rectools_sasrec.py FOLDER``: the folder holds ``options.json`` and ``sequences.json``, each user's
items without the one for test. The last of them is for validation and is ranked after every epoch. Wherever
that is better than before, recommendations from all of them are written to ``top.csv``. An epoch is a line of
JSON on standard output.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning
import torch
from rectools.dataset import Dataset
from rectools.models import SASRecModel

_K = 20


def dataset_of(sequences: Mapping[str, Sequence[str]]) -> Dataset:
    """Users' items as RecTools reads them; their order stands for the time."""
    rows = [(user, item, turn) for user, items in sequences.items() for turn, item in enumerate(items)]
    whole = pd.DataFrame(rows, columns=["user_id", "item_id", "turn"])
    time = pd.Timestamp("2000-01-01") + pd.to_timedelta(whole.pop("turn"), unit="s")
    return Dataset.construct(whole.assign(weight=1.0, datetime=time))


def recommend(model: SASRecModel, history: Dataset, users: np.ndarray, without_history: bool) -> pd.DataFrame:
    """The best items of each user, as user, item and rank."""
    top = model.recommend(users=users, dataset=history, k=_K, filter_viewed=without_history)
    return top.rename(columns={"user_id": "user", "item_id": "item"})[["user", "item", "rank"]]


def ndcg(top: pd.DataFrame, targets: pd.DataFrame, k: int) -> float:
    """NDCG@k of one target a user."""
    found = targets.merge(top[top["rank"] <= k], on=["user", "item"])
    return float((1 / np.log2(found["rank"] + 1)).sum() / len(targets))


def make(options: dict[str, Any]) -> SASRecModel:
    """The model, with a silent trainer."""

    def trainer() -> pytorch_lightning.Trainer:
        return pytorch_lightning.Trainer(
            max_epochs=1,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )

    return SASRecModel(**options, epochs=1, get_trainer_func=trainer, recommend_torch_device="cpu")


def main(folder: Path) -> None:
    """Train to the early stop."""
    asked = json.loads((folder / "options.json").read_text())
    torch.set_num_threads(asked["threads"])
    pytorch_lightning.seed_everything(asked["seed"], verbose=False)
    sequences: dict[str, list[str]] = json.loads((folder / "sequences.json").read_text())
    history = dataset_of({user: items[:-1] for user, items in sequences.items()})
    longer, users = dataset_of(sequences), np.array(list(sequences))
    valid = pd.DataFrame({"user": users, "item": [items[-1] for items in sequences.values()]})
    model, best, waited, epoch = make(asked["model"]), -1.0, 0, 0
    while epoch < asked["epochs"] and waited < asked["patience"]:
        began = time.perf_counter()
        model.fit_partial(history, min_epochs=1, max_epochs=1)
        seconds, epoch, waited = time.perf_counter() - began, epoch + 1, waited + 1
        score = ndcg(recommend(model, history, users, False), valid, 10)
        if score > best:
            best, waited = score, 0
            tops = [
                recommend(model, longer, users, without).assign(without_history=without)
                for without in (False, True)
            ]
            pd.concat(tops).to_csv(folder / "top.csv", index=False)
        print(json.dumps({"epoch": epoch, "seconds": seconds, "ndcg@10": score}), flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    main(Path(sys.argv[1]))
