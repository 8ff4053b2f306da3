"""``speed``: one contender after another, never side by side, in rounds so that drift hits all."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks import common
from benchmarks.common import ROOT
from benchmarks.contenders import CONTENDERS, RATIOS, check_names
from recbole_asarrec.errors import UserError


def run_worker(job: dict[str, Any]) -> Any:
    """Measure one contender in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.worker", json.dumps(job)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"Measuring '{job['contender']}' failed: {done.stderr.strip().splitlines()[-1]}.")
    return json.loads(done.stdout)


def summarise(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians with their range, and the ratios of :data:`RATIOS` taken round by round."""
    table = {}
    for name, results in runs.items():
        epochs = [second for result in results for second in result["epochs"]]
        table[name] = {
            "epoch_s": median(epochs),
            "epoch_s_range": [min(epochs), max(epochs)],
            "rows_per_s": results[0]["rows"] / median(epochs),
            "build_s": median(result["build"] for result in results),
            "validate_s": median(result["validate"] for result in results),
            "peak_gib": max(result["peak_gib"] for result in results),
        }
    ratios = {}
    for name, above, below in RATIOS:
        if above in runs and below in runs:
            each = [median(a["epochs"]) / median(b["epochs"]) for a, b in zip(runs[above], runs[below])]
            ratios[name] = {"median": median(each), "range": [min(each), max(each)]}
    return {"contenders": table, "ratios": ratios}


def as_text(summary: dict[str, Any]) -> str:
    """The table as Markdown."""
    lines = [
        "| contender | s/epoch (range) | rows/s | dataset build s | validation s | peak GiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in summary["contenders"].items():
        low, high = row["epoch_s_range"]
        lines.append(
            f"| {name} | {row['epoch_s']:.2f} ({low:.2f}–{high:.2f}) | {row['rows_per_s']:,.0f} "
            f"| {row['build_s']:.3f} | {row['validate_s']:.2f} | {row['peak_gib']:.2f} |"
        )
    lines += ["", "| ratio of epochs | median (range) |", "|---|---|"]
    for name, ratio in summary["ratios"].items():
        low, high = ratio["range"]
        lines.append(f"| {name} | {ratio['median']:.3f} ({low:.3f}–{high:.3f}) |")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``speed``."""
    common.add_arguments(parser)
    common.add_sample(parser)
    parser.add_argument(
        "--short", action="store_true", help="3 epochs on 2 %% of the users, once: two minutes"
    )
    parser.add_argument("--epochs", type=int, default=1, help="epochs a run (default: 1)")
    parser.add_argument("--batch", type=int, default=1024, help="train_batch_size (default: 1024)")
    parser.add_argument(
        "--only", nargs="+", metavar="contender", help="measure these alone, e.g. 'none, prefix'"
    )


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    check_names(arguments.only or [])
    if arguments.short:
        arguments.sample, arguments.rounds, arguments.epochs = 0.02, 1, 3  # the first epoch warms up
    job = {
        **common.data_of(arguments),
        "epochs": arguments.epochs,
        "keys": {"train_batch_size": arguments.batch, "seed": 2020},
    }
    chosen = arguments.only or list(CONTENDERS)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    rounds = [name for _ in range(arguments.rounds) for name in chosen]
    for name in (bar := tqdm(rounds, unit="run")):
        bar.set_description(name)
        runs[name].append(run_worker({**job, "contender": name}))
    summary = {
        "dataset": arguments.dataset,
        "sample": arguments.sample,
        **summarise(runs),
        "runs": runs,
    }
    print(as_text(summary))
    common.save(arguments.output, summary)
