"""What a training run shows on the console: its header, a line an epoch, and the final table."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from recbole_asarrec.environment import RECBOLE
from recbole_asarrec.shell import python_name, typed
from recbole_asarrec.version import __version__

_SHOWN_HISTORY = 5  # items in the example of `recommend`


def size_of(dataset: Any) -> str:
    """How much data there is, as text."""
    users, items = count(dataset.user_num - 1, "user"), count(dataset.item_num - 1, "item")
    return f"{users}, {items}, {count(dataset.inter_num, 'interaction')}"


def header(config: Any, size: str, log_file: str | None) -> str:
    """Versions, data and settings that the run really uses, a line each."""
    device = str(config["device"])
    if device == "cpu":
        device = f"CPU, {count(torch.get_num_threads(), 'thread')}"
    lines = [
        f"recbole-asarrec {__version__}, RecBole {RECBOLE}, torch {torch.__version__}, "
        f"Python {platform.python_version()}, {device}",
        f"{config['model']} on {config['dataset']}: {size}",
        f"Settings: {_settings(config)}",
    ]
    if log_file:
        lines.append(f"Log: {os.path.relpath(log_file)}")
    return "\n".join(lines)


def count(number: int, noun: str) -> str:
    """``1 epoch``, ``2 epochs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _settings(config: Any) -> str:
    method = ("augmentation", "recipe", "training", "noise_ratio")
    parts = [f"{key} {config[key]}" for key in method if config[key]]
    parts += [
        f"{key} {config[key]}" for key in ("train_batch_size", "learning_rate", "epochs", "stopping_step")
    ]
    return ", ".join([*parts, f"valid_metric {config['valid_metric']}", f"seed {config['seed']}"])


class EpochLines:
    """RecBole's ``callback_fn``: one line after each validation.

    Args:
        trainer: whose ``curve`` holds the epoch's time and losses.
        config: names the validation metric and whether bigger is better.
        batches: of an epoch; RecBole sums losses over them.
    """

    def __init__(self, trainer: Any, config: Any, batches: int) -> None:
        self._batches = batches
        self._trainer, self._metric = trainer, config["valid_metric"]
        self._bigger = config["valid_metric_bigger"]
        self._best: float | None = None

    def __call__(self, epoch: int, score: float) -> None:
        """Print the line of ``epoch``, counted from 0."""
        better = self._best is None or (score > self._best if self._bigger else score < self._best)
        self._best = score if better else self._best
        entry = self._trainer.curve[-1]
        line = (
            f"epoch {epoch + 1:>3}  {entry['seconds']:>6.1f} s  loss {entry['losses'][0] / self._batches:.4f}"
        )
        mark = "  best so far" if better else ""
        tqdm.write(f"{line}  validation {self._metric} {score:.4f}{mark}", file=sys.stdout)


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Metrics by part as aligned text: a line for the names, then one a part."""
    names = list(next(iter(rows.values())))
    first = max(map(len, rows))
    head = " " * first + "".join(f"{_title(name):>10}" for name in names)
    lines = [
        f"{part:<{first}}" + "".join(f"{row[name]:>10.4f}" for name in names) for part, row in rows.items()
    ]
    return "\n".join([head, *lines])


def _title(metric: str) -> str:
    return metric.upper().replace("HIT@", "HR@")


def outcome(
    trainer: Any,
    config: Any,
    dataset: Any,
    valid: Mapping[str, float] | None,
    test: Mapping[str, float] | None,
    seconds: float,
) -> str:
    """The table of both parts, how long it took, where the weights are, and what to type next."""
    rows = {part: row for part, row in {"validation": valid, "test": test}.items() if row}
    lines = ["", table(rows)] if rows else []
    curve = getattr(trainer, "curve", [])
    scores = [
        (entry["valid"][str(config["valid_metric"]).lower()], entry["epoch"])
        for entry in curve
        if "valid" in entry
    ]
    best = f" (best: epoch {_best(scores, config['valid_metric_bigger']) + 1})" if scores else ""
    lines += ["", f"{count(len(curve), 'epoch')}{best} in {_duration(seconds)}."]
    weights = Path(trainer.saved_model_file)
    if weights.is_file():
        lines.append(f"Weights: {weights}")
        if config["MODEL_TYPE"].name == "SEQUENTIAL":
            lines.append(f"Recommend: {_recommend_command(weights, _example(dataset))}")
    return "\n".join(lines)


def _best(scores: Sequence[tuple[float, int]], bigger: bool) -> int:
    return max(scores, key=lambda one: (one[0] if bigger else -one[0], -one[1]))[1]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _example(dataset: Any) -> list[str]:
    """The newest items of a real user."""
    items = dataset.inter_feat[dataset.iid_field][-_SHOWN_HISTORY:]
    return [str(token) for token in dataset.id2token(dataset.iid_field, items)]


def _recommend_command(weights: Path, history: Sequence[str]) -> str:
    words = [python_name(), "-m", "recbole_asarrec", "recommend", str(weights), "--history", *history]
    return typed(words)
