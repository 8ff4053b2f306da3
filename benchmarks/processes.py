"""``processes``: are the validation figures of two processes those of one, within noise?"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from recbole.quick_start import run as run_recbole
from tqdm import tqdm

from benchmarks import common
from benchmarks.common import ROOT
from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments import machine


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return str(probe.getsockname()[1])


def run_worker(job: dict[str, Any]) -> dict[str, float]:
    """Train in ``job["nproc"]`` processes of as many threads each; validation metrics of the best epoch."""
    threads = max(1, machine.cores() // 2)
    command = [sys.executable, "-m", "benchmarks.processes", json.dumps(job)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{job['nproc']} processes failed: {done.stderr.strip().splitlines()[-1]}.")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def summarise(runs: dict[int, list[float]]) -> dict[str, float]:
    """Means of both, the mean of their differences seed by seed, and the spread of single runs."""
    one, two = runs[1], runs[2]
    return {
        "one": mean(one),
        "two": mean(two),
        "difference": mean(b - a for a, b in zip(one, two)),
        "spread_one": stdev(one) if len(one) > 1 else 0.0,
        "spread_two": stdev(two) if len(two) > 1 else 0.0,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``processes``."""
    common.add_arguments(parser)
    parser.add_argument("--model", default="AsarSASRec", help="name of a model (default: AsarSASRec)")
    parser.add_argument("--epochs", type=int, default=5, help="epochs a run (default: 5)")
    parser.add_argument("--training", default="all_positions", help="key (default: all_positions)")


def run(arguments: argparse.Namespace) -> None:
    """The command: a seed a round."""
    keys = {"epochs": arguments.epochs, "training": arguments.training, "show_progress": False}
    job = {"model": arguments.model, "dataset": arguments.dataset}
    if (Path(arguments.data_path) / arguments.dataset).is_dir():
        keys["data_path"] = str(Path(arguments.data_path).absolute())
    runs: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for turn in tqdm(range(2 * arguments.rounds), unit="run"):
        seed, nproc = divmod(turn, 2)
        job = {**job, "nproc": nproc + 1, "keys": {**keys, "seed": 2020 + seed}}
        runs[nproc + 1].append(run_worker(job))
    found = summarise({count: [result["ndcg@10"] for result in results] for count, results in runs.items()})
    print(
        f"NDCG@10 on validation: one process {found['one']:.4f} ± {found['spread_one']:.4f}, "
        f"two {found['two']:.4f} ± {found['spread_two']:.4f}, "
        f"mean difference {found['difference']:+.4f} over {arguments.rounds} seeds"
    )
    common.save(arguments.output, {"dataset": arguments.dataset, "ndcg@10": found, "runs": runs})


def main() -> None:
    """Read a job from the first argument; the last line of the output is the result."""
    job = json.loads(sys.argv[1])
    sys.argv = sys.argv[:1]  # RecBole reads the command line too
    result = run_recbole(
        job["model"], job["dataset"], config_dict=job["keys"], nproc=job["nproc"], port=_free_port()
    )
    print(json.dumps(dict(result["best_valid_result"])))


if __name__ == "__main__":
    main()
