"""What every ``auto`` of an Asar model's configuration stands for, decided once, when its data is known.

From here on the configuration holds the values: log, checkpoint and records say what really ran.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from logging import getLogger
from typing import Any, NamedTuple

import numpy as np

AUTO = "auto"
_BATCH = 256  # targets, of some forty histories of six items
_USUAL_HISTORY = 6
_USERS = 512  # a batch that counts users, as the paper's group trains
_STEPS = 500  # of an epoch, for which these were chosen:
_LEARNING_RATE, _FASTEST = 0.001, 0.004
_PATIENCE, _LONGEST_PATIENCE = 10, 20  # validations without a better one
_EMA_EPOCHS = 2  # over which the weights are averaged
_EMA_DECAY = (0.9, 0.999)
_GCE_Q = 0.1
_HISTORY_PENALTY = 3.0
_REPEATS = 0.01  # share of repeated targets from which on items of the history are not pushed away
_LONG_HISTORY = 20  # mean length above which penalizing all of it would cost similar items, too
_DROPOUT, _DENSE_DROPOUT = 0.5, 0.2  # Kang and McAuley 2018: sparse data, MovieLens
_PAPER_DROPOUT = 0.2  # one sampled negative regularizes by itself; 0.1 in the paper's group's code


class TrainingData(NamedTuple):
    """What the values depend on.

    Attributes:
        targets: items to predict in an epoch.
        sequences: rows they stand in.
        mean_history: items before a target, on average.
        repeats: share of targets that are their user's target more than once.
    """

    targets: int
    sequences: int
    mean_history: float
    repeats: float


def describe(config: Any, dataset: Any) -> TrainingData:
    """Measure the rows of a training dataset; a mere catalogue has none."""
    rows = getattr(dataset, "inter_feat", None)
    if rows is None or not len(rows):
        return TrainingData(0, 0, 0.0, 0.0)
    users = rows[dataset.uid_field]
    sequences = len(rows)
    if config["training"] == "all_positions":
        _, count = np.unique(users.numpy(), return_counts=True)
        sequences = int(np.ceil(count / config["MAX_ITEM_LIST_LENGTH"]).sum())
    pairs = users * dataset.item_num + rows[dataset.iid_field]  # [N]
    return TrainingData(
        targets=len(rows),
        sequences=sequences,
        mean_history=float(rows[dataset.item_list_length_field].float().mean()),
        repeats=1 - len(pairs.unique()) / len(pairs),
    )


def _batch_size(config: Any, data: TrainingData) -> int:
    """Targets of some forty sequences, as a power of two; a longer history makes a larger batch."""
    if config["batch_by"] == "users":
        return _USERS
    longer = data.targets / max(data.sequences, 1) / _USUAL_HISTORY
    return _BATCH * 2 ** max(0, round(math.log2(longer))) if longer > 0 else _BATCH


def _steps(config: Any, data: TrainingData) -> int:
    """Batches of an epoch."""
    rows = data.sequences if config["batch_by"] == "users" else data.targets
    return max(1, -(-rows // int(config["train_batch_size"])))


def _learning_rate(config: Any, data: TrainingData) -> float:
    """Few steps an epoch are larger ones."""
    rate = _LEARNING_RATE * _STEPS / _steps(config, data)
    return float(f"{min(max(rate, _LEARNING_RATE), _FASTEST):.1g}")


def _patience(config: Any, data: TrainingData) -> int:
    """Few steps an epoch need more epochs to show whether they lead anywhere."""
    return round(min(max(_PATIENCE * _STEPS / _steps(config, data), _PATIENCE), _LONGEST_PATIENCE))


def _ema_decay(config: Any, data: TrainingData) -> float:
    low, high = _EMA_DECAY
    return round(min(max(1 - 1 / (_EMA_EPOCHS * _steps(config, data)), low), high), 3)


def _has_softmax(config: Any) -> bool:
    """Whether the next-item loss is a softmax over inner products, which this package can reweight."""
    return config.model_class.inner_product and config["loss_type"] == "CE"


def _history_penalty(config: Any, data: TrainingData) -> float:
    pushes = data.mean_history <= _LONG_HISTORY and data.repeats < _REPEATS
    return _HISTORY_PENALTY if pushes and _has_softmax(config) else 1.0


def _gce_q(config: Any, data: TrainingData) -> float:
    return _GCE_Q if _has_softmax(config) else 0.0


def _dropout(config: Any, data: TrainingData) -> float:
    if config["recipe"] == "paper":
        return _PAPER_DROPOUT
    return _DENSE_DROPOUT if data.mean_history > _LONG_HISTORY else _DROPOUT


def _contrast_on(config: Any, data: TrainingData) -> str:
    return "prefix" if config["training"] == "all_positions" else "user"


# in this order: the learning rate and the EMA depend on the batch size
RULES: Mapping[str, Callable[[Any, TrainingData], Any]] = {
    "train_batch_size": _batch_size,
    "learning_rate": _learning_rate,
    "stopping_step": _patience,
    "ema_decay": _ema_decay,
    "history_penalty": _history_penalty,
    "gce_q": _gce_q,
    "contrast_on": _contrast_on,
    "hidden_dropout_prob": _dropout,
    "attn_dropout_prob": _dropout,
}


def resolve(config: Any, dataset: Any) -> None:
    """Replace every ``auto`` in ``config`` by its value for this training dataset."""
    keys = [key for key in RULES if key in config and config[key] == AUTO]
    if not keys:
        return
    data = describe(config, dataset)
    for key in keys:
        config[key] = RULES[key](config, data)
    getLogger().info("auto: " + ", ".join(f"{key} = {config[key]}" for key in keys))
