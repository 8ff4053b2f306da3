"""``inference``: AsarSASRec's ranking beside SASRec's, batch by batch in one process."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model
from tqdm import tqdm

from benchmarks import common
from benchmarks.contenders import CONTENDERS


@torch.no_grad()
def measure(dataset: str, data_path: str, repeats: int) -> dict[str, Any]:
    """Time ``full_sort_predict`` of both models on the same batches, taking turns.

    Returns:
        Median seconds a batch of each, and the median of the ratios of neighbouring calls.
    """
    models, batches = {}, []
    for name in ("RecBole SASRec", "AsarRec, prefix"):
        model, keys, _ = CONTENDERS[name]
        config = Config(model, dataset, config_dict={**keys, "data_path": data_path, "eval_batch_size": 256})
        train, _, test = data_preparation(config, create_dataset(config))
        models[name] = get_model(model)(config, train._dataset).eval()
        batches = [batch[0] for batch in test]  # the last model's: the same rows for both
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in tqdm(range(repeats), unit="pass"):
        for batch in batches:
            for name, model in models.items():
                began = perf_counter()
                model.full_sort_predict(batch)
                seconds[name].append(perf_counter() - began)
    stock, asar = seconds.values()
    ratios = sorted(b / a for a, b in zip(stock, asar))
    tenth = len(ratios) // 10
    return {
        "seconds_a_batch": {name: median(times) for name, times in seconds.items()},
        "ratio": median(ratios),
        "ratio_range_80": [ratios[tenth], ratios[-1 - tenth]],
        "calls": len(ratios),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``inference``."""
    common.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    path = str(Path(arguments.data_path).absolute())
    typed, sys.argv = sys.argv, sys.argv[:1]  # RecBole reads the command line too
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # RecBole writes its logs into the current folder
        try:
            result = measure(arguments.dataset, path, arguments.rounds)
        finally:
            os.chdir(here)
    low, high = result["ratio_range_80"]
    print(
        f"full_sort_predict, AsarSASRec ÷ SASRec: {result['ratio']:.3f} (80 % of calls {low:.3f}–{high:.3f})"
    )
    sys.argv = typed
    common.save(arguments.output, {"dataset": arguments.dataset, **result})
