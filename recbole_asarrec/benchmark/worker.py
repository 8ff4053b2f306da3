"""One contender measured in a process of its own: a job as JSON in, a result as JSON out."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from time import perf_counter
from typing import Any

import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed

from recbole_asarrec.benchmark.contenders import CONTENDERS
from recbole_asarrec.benchmark.machine import peak_memory_gib
from recbole_asarrec.memory import keep_freed_memory


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Build, train ``job["epochs"]`` epochs and validate once.

    Args:
        job: contender, dataset, data_path, epochs and the keys all contenders share.

    Returns:
        Seconds of each stage, rows per epoch and peak memory.
    """
    contender = CONTENDERS[job["contender"]]
    if contender.stock:
        torch.autograd.set_detect_anomaly(True)  # as RecBole's import leaves it
    else:
        keep_freed_memory()
    keys = {**job["keys"], **contender.keys, "data_path": job["data_path"], "show_progress": False}
    config = Config(model=contender.model, dataset=job["dataset"], config_dict=keys)
    init_seed(config["seed"], config["reproducibility"])

    start = perf_counter()
    dataset = create_dataset(config)
    loaded = perf_counter()
    built = dataset.build()
    split = perf_counter()
    rows = len(built[0])
    del built, dataset

    train, valid, _ = data_preparation(config, create_dataset(config))
    model = get_model(contender.model)(config, train._dataset)
    trainer = get_trainer(config["MODEL_TYPE"], contender.model)(config, model)
    epochs = []
    for epoch in range(job["epochs"]):
        began = perf_counter()
        trainer._train_epoch(train, epoch)
        epochs.append(perf_counter() - began)
    began = perf_counter()
    trainer.evaluate(valid, load_best_model=False)
    return {
        "load": loaded - start,
        "build": split - loaded,
        "epochs": epochs,
        "validate": perf_counter() - began,
        "rows": rows,
        "peak_gib": peak_memory_gib(),
    }


def main() -> None:
    """Read a job from the first argument; RecBole's own output goes to standard error."""
    job, answer = json.loads(sys.argv[1]), sys.stdout
    sys.argv, sys.stdout = sys.argv[:1], sys.stderr
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        json.dump(measure(job), answer)


if __name__ == "__main__":
    main()
