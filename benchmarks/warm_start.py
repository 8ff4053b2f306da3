"""``warm_start``: training on data that has grown, from the checkpoint of before and from nothing.

The data of before is made from that of now: a tenth of the users is left out, and of a random half of the
others the last two interactions. (Amazon Beauty's file has no times, only the order of each user's
interactions, so there is no day to cut at.) Items that are then too rare for the dataset's settings are new
ones later. The model of before never meets the validation and test items of now as training targets: they
are the last two of a user, which leave-one-out keeps from training in both.

Three trainings, each to its early stop: before; now, from nothing; now, from the first one's checkpoint.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from recbole.config import Config
from recbole.data import create_dataset
from recbole.utils import init_logger, init_seed
from tqdm import tqdm

from benchmarks import common
from recbole_asarrec.errors import DataError, UserError
from recbole_asarrec.kernels.malloc import keep_freed_memory
from recbole_asarrec.training.set_up import set_up

_USERS_WITHOUT = 0.1  # share of users that came later
_SHORTER = 0.5  # share of the others that did something later
_LATER = 2  # how many interactions that was


def cut(rows: pd.DataFrame, user: str, time: str, seed: int) -> pd.DataFrame:
    """The interactions of before, in the order of the file.

    Args:
        rows: the interactions of now.
        user: column of users.
        time: column that orders each user's interactions.
        seed: of the draws.
    """
    users = np.sort(rows[user].unique())
    random = np.random.default_rng(seed)
    came_later = set(users[random.random(len(users)) < _USERS_WITHOUT])
    shorter = set(users[random.random(len(users)) < _SHORTER])
    ordered = rows.sort_values([user, time], kind="stable")
    from_the_end = ordered.groupby(user).cumcount(ascending=False).reindex(rows.index)
    later = rows[user].isin(came_later) | (rows[user].isin(shorter) & (from_the_end < _LATER))
    return rows[~later]


def write_before(source: Path, folder: Path, name: str, seed: int) -> dict[str, int]:
    """Write the data of before as ``<folder>/<name>/<name>.inter``; how many rows both have."""
    file = source / name / f"{name}.inter"
    if not file.is_file():
        raise DataError(f"There is no file '{file}'; name the folder above the dataset with --data_path.")
    now = pd.read_csv(file, sep="\t", dtype=str)
    user, time = (next(one for one in now if one.startswith(start)) for start in ("user_id:", "timestamp:"))
    before = cut(now.assign(**{time: now[time].astype(float)}), user, time, seed)
    (folder / name).mkdir(parents=True)
    now.loc[before.index].to_csv(folder / name / f"{name}.inter", sep="\t", index=False)
    return {"before": len(before), "now": len(now)}


def train(name: str, data_path: Path, folder: Path, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Train to the early stop and test once.

    Returns:
        Validation and test metrics, seconds of ``fit`` in all and to the best epoch, the curve of validation
        scores over seconds, what was taken over, and where the weights are.
    """
    paths = {"data_path": str(data_path), "checkpoint_dir": str(folder)}
    quiet = {"show_progress": False, "state": "ERROR"}
    config = Config("AsarSASRec", name, config_dict={**keys, **paths, **quiet})
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    run = set_up(config, create_dataset(config))
    curve: list[dict[str, float]] = []
    began = perf_counter()
    run.trainer.fit(
        run.train,
        run.valid,
        verbose=False,
        callback_fn=lambda _, score: curve.append({"seconds": perf_counter() - began, "score": float(score)}),
    )
    seconds = perf_counter() - began
    best = max(range(len(curve)), key=lambda one: curve[one]["score"])
    taken = getattr(run.trainer, "warm_start", None)
    kinds = ("kept", "near", "random", "dropped")
    return {
        "valid": dict(run.trainer.best_valid_result),
        "test": dict(run.trainer.evaluate(run.test)),
        "epochs": len(curve),
        "best_epoch": best + 1,
        "seconds": seconds,
        "seconds_to_best": curve[best]["seconds"],
        "curve": curve,
        "items": {kind: getattr(taken, kind) for kind in kinds} if taken else None,
        "weights": run.trainer.saved_model_file,
    }


def seconds_to(curve: Sequence[Mapping[str, float]], score: float) -> float | None:
    """When a curve first reaches a validation score, if it does."""
    return next((point["seconds"] for point in curve if point["score"] >= score), None)


def summarise(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over seeds of both trainings' metrics, and the warm one's share of the other's time."""
    means: dict[str, Any] = {}
    for kind in ("fresh", "warm"):
        for part in ("valid", "test"):
            names = rounds[0][kind][part]
            means[f"{kind}_{part}"] = {name: mean(one[kind][part][name] for one in rounds) for name in names}
    reached = [
        seconds_to(one["warm"]["curve"], max(point["score"] for point in one["fresh"]["curve"]))
        for one in rounds
    ]
    shares = [
        None if seconds is None else seconds / one["fresh"]["seconds_to_best"]
        for seconds, one in zip(reached, rounds)
    ]
    return {
        **means,
        "time_share": mean(one["warm"]["seconds"] / one["fresh"]["seconds"] for one in rounds),
        "time_share_to_best": mean(
            one["warm"]["seconds_to_best"] / one["fresh"]["seconds_to_best"] for one in rounds
        ),
        "time_share_to_reach": shares,  # the fresh one's best validation score, where it is reached
    }


def as_text(summary: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> str:
    """Metrics and time as a Markdown table."""
    names = list(summary["fresh_test"])
    lines = [
        f"| training on the data of now | {' | '.join(names)} | epochs | s |",
        "|---|" + "---|" * (len(names) + 2),
    ]
    for kind, title in (("fresh", "from nothing"), ("warm", "from the checkpoint of before")):
        for part in ("valid", "test"):
            figures = " | ".join(f"{summary[f'{kind}_{part}'][name]:.4f}" for name in names)
            epochs = mean(one[kind]["epochs"] for one in rounds)
            seconds = mean(one[kind]["seconds"] for one in rounds)
            lines.append(f"| {title}, {part} | {figures} | {epochs:.0f} | {seconds:.0f} |")
    reached = [share for share in summary["time_share_to_reach"] if share is not None]
    lines += [
        "",
        f"Share of the time: {summary['time_share']:.2f} to the early stop, "
        f"{summary['time_share_to_best']:.2f} to the best epoch"
        + (f", {mean(reached):.2f} to the fresh training's best validation score" if reached else "")
        + f" (reached in {len(reached)} of {len(rounds)})",
    ]
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``warm_start``."""
    common.add_arguments(parser)
    parser.set_defaults(dataset="amazon-beauty")
    parser.add_argument("--recipe", default="robust", help="training recipe (default: robust)")
    parser.add_argument("--augmentation", default="asar", help="views (default: asar)")
    parser.add_argument("--epochs", type=int, default=300, help="at most so many epochs (default: 300)")


def run(arguments: argparse.Namespace) -> None:
    """The command: a round is a seed of the cut and of the trainings."""
    source, name = Path(arguments.data_path).absolute(), arguments.dataset
    if name == "ml-100k":
        raise UserError("RecBole always reads its own copy of ml-100k; name another dataset.")
    typed, sys.argv, here = sys.argv, sys.argv[:1], os.getcwd()  # RecBole reads the command line too
    keep_freed_memory()
    setting = {name: getattr(arguments, name) for name in ("recipe", "augmentation", "epochs")}
    rounds = []
    try:
        for number in tqdm(range(arguments.rounds), unit="seed"):
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary)
                os.chdir(folder)
                keys = {**setting, "seed": 2020 + number}
                sizes = write_before(source, folder / "data", name, seed=number)
                before = train(name, folder / "data", folder / "before", keys)
                fresh = train(name, source, folder / "fresh", keys)
                start = {"warm_start": before["weights"]}
                warm = train(name, source, folder / "warm", {**keys, **start})
                os.chdir(here)
            parts = {"before": before, "fresh": fresh, "warm": warm}
            for part in parts.values():
                del part["weights"]
            rounds.append({"interactions": sizes, **parts})
    finally:
        os.chdir(here)
        sys.argv = typed
    summary = summarise(rounds)
    print(as_text(summary, rounds))
    common.save(
        arguments.output, {"dataset": name, "model": "AsarSASRec", **setting, **summary, "rounds": rounds}
    )
