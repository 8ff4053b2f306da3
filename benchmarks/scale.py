"""``scale``: what an interaction costs when there are a hundred times as many."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks import common, generate
from benchmarks.speed import run_worker

CONTENDER = "AsarRec, all positions"


def summarise(result: dict[str, Any]) -> dict[str, Any]:
    """The row of a size: seconds of each stage, cost of a target, and memory."""
    return {
        "interactions": result["interactions"],
        "load_s": result["load"],
        "build_s": result["build"],
        "steps": result["steps"],
        "steps_of_epoch": result["steps_of_epoch"],
        "epoch_s": result["us_per_target"] * result["rows"] / 1e6,
        "us_per_target": result["us_per_target"],
        "peak_gib": result["peak_gib"],
        "model_gib": result["model_gib"],
    }


def as_text(rows: list[dict[str, Any]]) -> str:
    """The table as Markdown; an epoch is the mean cost of a target times its targets."""
    lines = [
        "| interactions | load s | build s | steps trained | s/epoch | µs/target | ÷ smallest | peak GiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['interactions']:,} | {row['load_s']:.1f} | {row['build_s']:.2f} "
            f"| {row['steps']:,} of {row['steps_of_epoch']:,} "
            f"| {row['epoch_s']:,.0f} | {row['us_per_target']:.1f} "
            f"| {row['us_per_target'] / rows[0]['us_per_target']:.2f} | {row['peak_gib']:.2f} |"
        )
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``scale``."""
    sizes = [200_000, 2_000_000, generate.INTERACTIONS]
    parser.add_argument(
        "--interactions", type=int, nargs="+", default=sizes, help=f"sizes (default: {sizes})"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=2000,
        help="train at most so many steps of the epoch, which are a random sample of it (default: 2000)",
    )
    parser.add_argument("--batch", type=int, default=1024, help="train_batch_size (default: 1024)")
    common.add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command: one fresh process a size, one after another."""
    runs = []
    for size in (bar := tqdm(arguments.interactions, unit="size")):
        bar.set_description(f"{size:,} interactions")
        with tempfile.TemporaryDirectory() as folder:
            generate.write(Path(folder), "generated", size)
            job = {"contender": CONTENDER, "dataset": "generated", "data_path": folder, "epochs": 1}
            job["keys"] = {"train_batch_size": arguments.batch, "seed": 2020}
            runs.append({"interactions": size, **run_worker({**job, "steps": arguments.steps})})
    rows = [summarise(result) for result in runs]
    print(as_text(rows))
    common.save(arguments.output, {"sizes": rows, "runs": runs})
