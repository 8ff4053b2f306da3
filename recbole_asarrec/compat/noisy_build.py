"""Noise, and a filter of users, between RecBole's filters and its split, for every sequential model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recbole_asarrec.config.package_settings import PackageSettings
from recbole_asarrec.data.noise import add_noise
from recbole_asarrec.errors import ConfigError, DataError

_HELD_OUT = {"valid_and_test": 2, "valid_only": 1, "test_only": 1}


def _drop_repeating_users(dataset: Any) -> None:
    """Leave out users who interacted with an item more than once."""
    frame, user = dataset.inter_feat, dataset.uid_field
    repeating = frame.loc[frame.duplicated([user, dataset.iid_field]), user].unique()
    dataset.inter_feat = frame[~frame[user].isin(repeating)].reset_index(drop=True)
    dataset.logger.info(f"{len(repeating)} users with a repeated item are left out.")
    if not len(dataset.inter_feat):
        raise DataError(
            f"Every user of '{dataset.dataset_name}' has a repeated item; set drop_repeating_users: False."
        )


def build_with_noise(build: Callable, dataset: Any) -> list[Any]:
    """``SequentialDataset.build`` of a dataset with the noise its configuration asks for.

    The training part carries what was added as ``dataset.noise``, nothing without noise.
    """
    settings = PackageSettings.read(dataset.config)
    if settings.drop_repeating_users:
        _drop_repeating_users(dataset)
    if settings.noise_ratio == 0:
        datasets = build(dataset)
        datasets[0].noise = None
        return datasets
    split = dataset.config["eval_args"]["split"]
    if split.get("LS") not in _HELD_OUT:
        raise ConfigError(
            f"noise_ratio needs a leave-one-out split to know what is trained on, but the split is {split}; "
            "set eval_args: {split: {LS: valid_and_test}}."
        )
    columns = (dataset.uid_field, dataset.iid_field, dataset.time_field)
    frame, noise = add_noise(dataset.inter_feat, columns, dataset.item_num, _HELD_OUT[split["LS"]], settings)
    if settings.noise_scope == "train_and_history":
        dataset.inter_feat = frame
        datasets = build(dataset)
    else:
        noisy = dataset.copy(frame)  # before building changes the clean one
        datasets = build(dataset)
        datasets[0] = build(noisy)[0]
    datasets[0].noise = noise
    dataset.logger.info(
        f"{len(noise.pairs)} noisy interactions ({noise.kind}, fingerprint {noise.fingerprint})"
    )
    return datasets
