"""One run: from what was asked for to a record of what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from recbole.config import Config
from recbole.data import create_dataset
from recbole.utils import init_logger, init_seed

from recbole_asarrec.experiments import machine
from recbole_asarrec.experiments.ranks import metrics, rank_test_items
from recbole_asarrec.experiments.records import Record, Spec
from recbole_asarrec.experiments.views import describe_views
from recbole_asarrec.training import checkpoint
from recbole_asarrec.training.set_up import set_up

_LIKE_STOCK = {"train_neg_sample_args": None}  # RecBole's defaults pair CE with negatives and refuse it


def configure(spec: Spec, **more: Any) -> Config:
    """RecBole's configuration of a run; everything a user can get wrong in it is said here."""
    keys = {**spec.keys, **more, "seed": spec.seed}
    stock_ce = not spec.model.startswith("Asar") and keys.get("loss_type", "CE") == "CE"
    return Config(spec.model, spec.dataset, config_dict={**(_LIKE_STOCK if stock_ce else {}), **keys})


def run(
    spec: Spec,
    folder: Path,
    keys: Mapping[str, Any] | None = None,
    test: bool = True,
    each_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Record:
    """Train, or resume training, and test the best weights once.

    Args:
        spec: what to run.
        folder: where its checkpoints are kept.
        keys: configuration that does not change results, as ``data_path``.
        test: False leaves the test data unread, for tuning.
        each_epoch: is given the entry of the learning curve after every validation.
    """
    began = perf_counter()
    config = configure(
        spec, **(keys or {}), checkpoint_dir=str(folder), resume=True, show_progress=False, state="warning"
    )
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    dataset = create_dataset(config)
    data = count(dataset)
    train, valid, held_out, model, trainer = set_up(config, dataset)

    def tell(epoch: int, score: float) -> None:
        if each_epoch is not None:
            each_epoch(trainer.curve[-1])

    trainer.fit(train, valid, verbose=False, callback_fn=tell)
    state = checkpoint.read(trainer.saved_model_file, config["device"])
    checkpoint.load_into(model, state, trainer.saved_model_file)
    ranked = rank_test_items(model, held_out) if test else None
    noise = train._dataset.noise
    before = [entry["seconds"] for entry in trainer.curve if entry["epoch"] < trainer.start_epoch]
    return Record(
        spec=spec,
        config=_plain(config.final_config_dict),
        machine=machine.describe(),
        noise=noise and noise.describe(),
        curve=trainer.curve,
        best_epoch=state["epoch"],
        valid=dict(trainer.best_valid_result),
        test={} if ranked is None else {name: metrics(r, config["topk"]) for name, r in ranked.ranks.items()},
        ranks={} if ranked is None else ranked.ranks,
        users="" if ranked is None else ranked.fingerprint,
        seconds=perf_counter() - began + sum(before),  # where it was interrupted and resumed
        peak_gib=machine.peak_memory_gib(),
        views=describe_views(model, train._dataset) if test else None,
        data=data,
    )


def count(dataset: Any) -> dict[str, int]:
    """The size of a dataset that is not split yet; RecBole counts the padding as a user and an item."""
    return {
        "users": int(dataset.user_num) - 1,
        "items": int(dataset.item_num) - 1,
        "interactions": int(dataset.inter_num),
    }


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration says, without this machine's paths."""
    hidden = {"data_path", "checkpoint_dir", "device"}
    plain = checkpoint.to_plain({key: value for key, value in config.items() if key not in hidden})
    return {str(key): sorted(value) if isinstance(value, set) else value for key, value in plain.items()}
