"""``reach``: how long it takes to be as good on validation as stock RecBole ever gets."""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks import common
from benchmarks.contenders import check_names
from benchmarks.speed import run_worker

STOCK = "RecBole SASRec"
STAND_IN = "none, prefix"  # the same rows, network and loss as stock, in batches of like length
_MANY = 1000  # epochs; a rival stops when it has used up stock's time


def best(points: list[dict[str, float]]) -> dict[str, float]:
    """The point of a curve with the highest NDCG@10, the first of equals."""
    return max(points, key=lambda point: point["ndcg@10"])


def time_to(points: list[dict[str, float]], score: float) -> float | None:
    """Seconds until a curve reaches a score; nothing if it does not."""
    return next((point["seconds"] for point in points if point["ndcg@10"] >= score), None)


def as_text(curves: dict[str, list[dict[str, float]]]) -> str:
    """The table as Markdown; ratios are to the time stock takes to its own best."""
    goal = best(curves[STOCK])
    lines = ["| contender | best NDCG@10 | s to stock's best | ÷ stock | epochs |", "|---|---|---|---|---|"]
    for name, points in curves.items():
        seconds = time_to(points, goal["ndcg@10"])
        reached = "not reached | –" if seconds is None else f"{seconds:.1f} | {seconds / goal['seconds']:.3f}"
        epochs = sum(point["seconds"] <= (seconds or points[-1]["seconds"]) for point in points)
        lines.append(f"| {name} | {best(points)['ndcg@10']:.4f} | {reached} | {epochs} |")
    return "\n".join(lines)


def paced(points: list[dict[str, float]], timed: dict[str, Any]) -> list[dict[str, float]]:
    """A curve at another's pace: epoch by epoch the seconds that ``timed`` trained and validated for."""
    pace = median(timed["epochs"]) + timed["validate"]
    return [{**point, "seconds": pace * epoch} for epoch, point in enumerate(points, start=1)]


def stock_curve(job: dict[str, Any], epochs: int, timed: int | None) -> list[dict[str, float]]:
    """Stock's own curve, or its stand-in's at the pace of ``timed`` epochs of stock."""
    if timed is None:
        return run_worker({**job, "curve": True, "contender": STOCK, "epochs": epochs})
    pace = run_worker({**job, "contender": STOCK, "epochs": timed})
    return paced(run_worker({**job, "curve": True, "contender": STAND_IN, "epochs": epochs}), pace)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``reach``."""
    common.add_arguments(parser)
    parser.set_defaults(rounds=1)
    common.add_sample(parser)
    parser.add_argument("--epochs", type=int, default=20, help="epochs of stock RecBole (default: 20)")
    parser.add_argument("--batch", type=int, default=1024, help="stock's train_batch_size (default: 1024)")
    parser.add_argument(
        "--timed",
        type=int,
        metavar="EPOCHS",
        help="run only so many epochs of stock, for their seconds, and take its curve from "
        f"'{STAND_IN}', which learns the same in a fraction of the time (default: run all)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="contender",
        default=["AsarRec, prefix", "AsarRec, all positions"],
        help="who runs against stock (default: AsarRec, both ways of training)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Stock RecBole, then each rival as it comes, until it is as good or has used up stock's time."""
    check_names(arguments.only)
    rounds: list[dict[str, Any]] = []
    job = common.data_of(arguments)
    for number in range(arguments.rounds):
        keys = {"seed": 2020 + number}
        stock = {**job, "keys": {**keys, "train_batch_size": arguments.batch}}
        bar = tqdm(arguments.only, desc=STOCK, unit="run")
        curves = {STOCK: stock_curve(stock, arguments.epochs, arguments.timed)}
        goal = best(curves[STOCK])
        rival = {**job, "keys": keys, "curve": True, "epochs": _MANY}
        for name in bar:
            bar.set_description(name)
            limits = {"reach": goal["ndcg@10"], "seconds": goal["seconds"]}
            curves[name] = run_worker({**rival, **limits, "contender": name})
        rounds.append(curves)
        print(as_text(curves))
    data = {"dataset": arguments.dataset, "sample": arguments.sample}
    common.save(arguments.output, {**data, "rounds": rounds})
