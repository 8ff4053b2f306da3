"""The game at settings nobody should use: every loss and weight stays finite, or it stops and says why."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

import torch
from robustness.playground import SMALL, write_ring
from tqdm import tqdm

from recbole_asarrec.errors import DivergedError
from recbole_asarrec.training.monitor import AugmenterMonitor, check_weights


class Extreme(NamedTuple):
    """Keys far from their defaults; the data and the number format they meet."""

    keys: Mapping[str, Any]
    alike: bool = False
    autocast: torch.dtype | None = None


_HEAVY = {
    "contrastive_weight": 10.0,
    "diversity_weight": 100.0,
    "semantic_weight": 500.0,
    "gradient_reversal": 100.0,
}
_COLD = {"temperature": 0.01}
_FAST = {"learning_rate": 0.01}
EXTREMES: Mapping[str, Extreme] = {
    "temperature 0.01": Extreme(_COLD),
    "temperature 1e-6": Extreme({"temperature": 1e-6}),
    "weights × 100": Extreme(_HEAVY),
    "learning rate × 10": Extreme(_FAST),
    "learning rate × 1000": Extreme({"learning_rate": 1.0}),
    "all three": Extreme({**_COLD, **_HEAVY, **_FAST}),
    "identical views": Extreme({"gumbel_scale": 0.0, "identity_bias": 1e4, "min_edits": 0}),
    "histories of one item": Extreme({"MAX_ITEM_LIST_LENGTH": 1}),
    "no candidates": Extreme({"num_candidates": 0}),
    "more candidates than unseen items": Extreme({"num_candidates": 40}),
    "all histories equal": Extreme({}, alike=True),
    "one row a batch": Extreme({"train_batch_size": 1}),
    "everything undecided": Extreme({"sinkhorn_threshold": 1e3}),
    "noise × 100": Extreme({"gumbel_scale": 100.0}),
    "bfloat16": Extreme({**_COLD, **_FAST}, autocast=torch.bfloat16),
    "float16": Extreme({**_COLD, **_FAST}, autocast=torch.float16),
    "float16, weights × 100": Extreme({**_COLD, **_HEAVY}, autocast=torch.float16),
}


def play(extreme: Extreme, steps: int, data_path: Path) -> str:
    """Train for ``steps`` batches.

    Returns:
        ``finite``, or the sentence it stopped with.

    Raises:
        ArithmeticError: a gradient or weight was not finite and nothing noticed.
    """
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, init_seed

    keys = {**SMALL, "data_path": str(data_path), "topk": [10], **extreme.keys}
    config = Config("AsarSASRec", "alike" if extreme.alike else "ring", config_dict=keys)
    init_seed(config["seed"], config["reproducibility"])
    train, *_ = data_preparation(config, create_dataset(config))
    model = get_model("AsarSASRec")(config, train._dataset)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["learning_rate"])
    monitor = AugmenterMonitor(model.loss_names)
    try:
        for batch in islice(chain.from_iterable(repeat(train)), steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", extreme.autocast) if extreme.autocast else nullcontext():
                step = model.training_step(batch)
            monitor.update(step, model)
            sum(step.losses).backward()
            if not all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()):
                raise ArithmeticError("a gradient is not finite though the loss is")
            optimizer.step()
        check_weights(model, "at the end")
    except DivergedError as error:
        return f"stopped: {error}"
    return "finite"


def play_all(steps: int) -> tuple[dict[str, str], list[str]]:
    """What became of every extreme, and which of them broke without a word."""
    ends, unnoticed = {}, []
    with tempfile.TemporaryDirectory() as folder:
        write_ring(Path(folder), "ring")
        write_ring(Path(folder), "alike", alike=True)
        for name, extreme in tqdm(EXTREMES.items(), desc="extreme settings"):
            try:
                ends[name] = play(extreme, steps, Path(folder))
            except ArithmeticError as error:
                ends[name] = str(error)
                unnoticed.append(name)
    return ends, unnoticed
