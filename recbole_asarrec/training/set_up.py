"""From a configuration to everything that a run needs, in RecBole's order."""

from __future__ import annotations

from typing import Any, NamedTuple

from recbole.data import data_preparation
from recbole.utils import get_model, get_trainer, init_seed


class Run(NamedTuple):
    """The parts of a run: three loaders, the model on its device, and the trainer."""

    train: Any
    valid: Any
    test: Any
    model: Any
    trainer: Any


def set_up(config: Any, dataset: Any) -> Run:
    """Split a dataset and build the configured model and trainer, seeded as RecBole's quick start does.

    Args:
        config: a RecBole ``Config``.
        dataset: of ``create_dataset``; it is split in place.
    """
    train, valid, test = data_preparation(config, dataset)
    init_seed(config["seed"] + config["local_rank"], config["reproducibility"])
    model = get_model(config["model"])(config, train._dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    return Run(train, valid, test, model, trainer)
