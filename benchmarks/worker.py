"""One contender measured in a process of its own: a job as JSON in, a result as JSON out."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from math import inf
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed

from benchmarks.contenders import CONTENDERS
from recbole_asarrec.data import TARGETS
from recbole_asarrec.experiments.machine import peak_memory_gib
from recbole_asarrec.kernels.malloc import keep_freed_memory


class _Counted:
    """The first batches of a loader, how many targets each held and how long each took."""

    def __init__(self, loader: Any, steps: int | None) -> None:
        self._loader = loader
        self.steps = len(loader) if steps is None else min(steps, len(loader))
        self.targets: list[int] = []
        self.seconds: list[float] = []

    def __iter__(self) -> Iterator[Any]:
        self.targets, self.seconds = [], []
        began = perf_counter()
        for batch in islice(self._loader, self.steps):
            self.targets.append(int((batch[TARGETS] > 0).sum()) if TARGETS in batch else len(batch))
            yield batch
            self.seconds.append(perf_counter() - began)
            began = perf_counter()

    def __len__(self) -> int:
        return self.steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _seconds_of_build(dataset: Any) -> list[float]:
    """A list that gets the seconds of ``dataset.build()``, which RecBole calls between other things."""
    build, seconds = dataset.build, []

    def timed() -> Any:
        began = perf_counter()
        parts = build()
        seconds.append(perf_counter() - began)
        return parts

    dataset.build = timed
    return seconds


def keep_users(dataset: Any, share: float) -> None:
    """Leave a share of the users, always the same ones, with all they did; the catalogue stays whole.

    RecBole has read, filtered and numbered the data by then, and not split it yet.
    """
    chosen = np.random.default_rng(2020).random(dataset.user_num) < share
    rows = dataset.inter_feat
    dataset.inter_feat = rows[chosen[rows[dataset.uid_field].to_numpy()]].reset_index(drop=True)


class _Run(NamedTuple):
    """A contender ready to train, and what it took to get there."""

    trainer: Any
    train: Any
    valid: Any
    load: float
    build: float


def _prepare(job: dict[str, Any]) -> _Run:
    contender = CONTENDERS[job["contender"]]
    if contender.stock:
        torch.autograd.set_detect_anomaly(True)  # as RecBole's import leaves it
    else:
        keep_freed_memory()
    keys = {**job["keys"], **contender.keys, "data_path": job["data_path"], "show_progress": False}
    config = Config(model=contender.model, dataset=job["dataset"], config_dict=keys)
    init_seed(config["seed"], config["reproducibility"])
    began = perf_counter()
    dataset = create_dataset(config)
    load = perf_counter() - began
    if job.get("sample", 1.0) < 1:
        keep_users(dataset, job["sample"])
    build = _seconds_of_build(dataset)
    train, valid, _ = data_preparation(config, dataset)
    init_seed(config["seed"], config["reproducibility"])
    model = get_model(contender.model)(config, train._dataset)
    trainer = get_trainer(config["MODEL_TYPE"], contender.model)(config, model)
    return _Run(trainer, train, valid, load, build[0])


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Build, train ``job["epochs"]`` epochs and validate once.

    Args:
        job: contender, dataset, data_path, epochs and the keys all contenders share; a ``sample``
            of the users; ``steps`` of each epoch, where not all are wanted, and then nothing is validated.

    Returns:
        Seconds of each stage, rows and steps of an epoch, what was trained of them, and peak memory.
    """
    run, steps = _prepare(job), job.get("steps")
    trained, epochs = _Counted(run.train, steps), []
    for epoch in range(job["epochs"]):
        began = perf_counter()
        run.trainer._train_epoch(trained, epoch)
        epochs.append(perf_counter() - began)
    began = perf_counter()
    if steps is None:
        run.trainer.evaluate(run.valid, load_best_model=False)
    return {
        "load": run.load,
        "build": run.build,
        "epochs": epochs,
        "validate": perf_counter() - began,
        "rows": len(run.train._dataset),
        "targets": sum(trained.targets),
        "us_per_target": 1e6 * sum(trained.seconds) / sum(trained.targets),
        "steps": trained.steps,
        "steps_of_epoch": len(run.train),
        "peak_gib": peak_memory_gib(),
        "model_gib": sum(p.numel() * p.element_size() for p in run.trainer.model.parameters()) / 2**30,
    }


def curve(job: dict[str, Any]) -> list[dict[str, float]]:
    """Train and validate epoch by epoch.

    Args:
        job: as for :func:`measure`; ``reach`` stops at this NDCG@10 and ``seconds`` at this time.

    Returns:
        After each epoch, the seconds since the first began and NDCG@10 on validation.
    """
    run, points = _prepare(job), []
    began = perf_counter()
    for epoch in range(job["epochs"]):
        run.trainer._train_epoch(run.train, epoch)
        found = run.trainer.evaluate(run.valid, load_best_model=False)["ndcg@10"]
        points.append({"seconds": perf_counter() - began, "ndcg@10": float(found)})
        if found >= job.get("reach", inf) or points[-1]["seconds"] > job.get("seconds", inf):
            break
    return points


def main() -> None:
    """Read a job from the first argument; RecBole's own output goes to standard error."""
    job, answer = json.loads(sys.argv[1]), sys.stdout
    sys.argv, sys.stdout = sys.argv[:1], sys.stderr
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        json.dump(curve(job) if job.get("curve") else measure(job), answer)


if __name__ == "__main__":
    main()
