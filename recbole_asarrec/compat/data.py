"""RecBole's datasets: this package's loaders, clear words for broken files, and pandas 3."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import torch

from recbole_asarrec.compat.checks import strict_for_ours
from recbole_asarrec.compat.noisy_build import build_with_noise
from recbole_asarrec.compat.patching import hook, patch_source
from recbole_asarrec.config.package_settings import NOISE_KEYS
from recbole_asarrec.data import atomic_file, checks
from recbole_asarrec.data.download import download
from recbole_asarrec.prepare.paper import recbole_name


@hook("config phase", "recbole.data.utils:get_dataloader", "recbole.data:get_dataloader")
def _get_dataloader(original: Callable) -> Callable:
    """Registration: the loaders of bucketed batches and of all positions."""

    @functools.wraps(original)
    def get_dataloader(config: Any, phase: str) -> type:
        stock = original(config, phase)
        if config["batching"] != "bucketed" or config["benchmark_filename"] is not None:
            return stock
        from recbole.data.dataloader import FullSortEvalDataLoader

        from recbole_asarrec.data import EvalLoader, PrefixLoader, SequenceLoader

        if phase == "train":
            return SequenceLoader if config["training"] == "all_positions" else PrefixLoader
        return EvalLoader if stock is FullSortEvalDataLoader else stock

    return get_dataloader


@hook("self token dataset_path", "recbole.data.dataset.dataset:Dataset._load_data")
def _load_data(original: Callable) -> Callable:
    """Messages: a missing or broken file is named with its line before RecBole fails inside pandas."""

    @functools.wraps(original)
    def load_data(self: Any, token: str, dataset_path: str) -> None:
        if not Path(dataset_path).exists():
            checks.check_dataset_exists(token, dataset_path, self._get_download_url("url", allow_none=True))
            self._download()
        if self.benchmark_filename_list is not None:
            original(self, token, dataset_path)
            return
        file = checks.find_inter_file(token, dataset_path)
        with strict_for_ours(self.config.model_class):
            checks.check_columns(file, self.config)
        original(self, token, dataset_path)
        with strict_for_ours(self.config.model_class):
            checks.check_rows(self.inter_feat, file, self.config)

    return load_data


@hook("self url_file allow_none", "recbole.data.dataset.dataset:Dataset._get_download_url")
def _get_download_url(original: Callable) -> Callable:
    """Registration: the paper's dataset names are known to RecBole under others."""

    @functools.wraps(original)
    def get_download_url(self: Any, url_file: str, allow_none: bool = False) -> str | None:
        """Look the paper's names up by RecBole's."""
        name = recbole_name(self.dataset_name)
        renamed = SimpleNamespace(dataset_name=name, dataset_path=self.dataset_path, config=self.config)
        return original(renamed, url_file, allow_none)

    return get_download_url


@hook("self token dataset_path", "recbole.data.dataset.dataset:Dataset._load_inter_feat")
@hook(
    "self token dataset_path source field_name",
    "recbole.data.dataset.dataset:Dataset._load_user_or_item_feat",
)
def _load_feat(original: Callable) -> Callable:
    """Messages: pandas' error becomes the file and line that it cannot read."""

    @functools.wraps(original)
    def load_feat(self: Any, token: str, dataset_path: str, *rest: Any) -> Any:
        try:
            return original(self, token, dataset_path, *rest)
        except (ValueError, IndexError, OverflowError) as error:  # pandas' own errors are ValueErrors
            kind = rest[0].value if rest else "inter"
            parts = [f".{part}" for part in self.benchmark_filename_list or []] if kind == "inter" else []
            files = [Path(dataset_path) / f"{token}{part}.{kind}" for part in parts or [""]]
            raise atomic_file.explain_unreadable(files, self.config, error) from error

    return load_feat


@hook("self", "recbole.data.dataset.dataset:Dataset._download")
def _download(original: Callable) -> Callable:
    """Security and compatibility: archives are checked, and a single process has no barrier."""

    @functools.wraps(original)
    def fetch(self: Any) -> None:
        # RecBole ends with a barrier that a single process has no group for
        if self.config["single_spec"] or self.config["local_rank"] == 0:
            url = self._get_download_url("url")
            download(self.dataset_name, url, self.dataset_path, ask=self.config["download"] != "yes")
        if not self.config["single_spec"]:
            torch.distributed.barrier()

    return fetch


@hook("self", "recbole.data.dataset.dataset:Dataset._reset_index")
def _reset_index(original: Callable) -> Callable:
    """Messages: filters that leave nothing are named, instead of an IndexError later."""

    @functools.wraps(original)
    def reset_index(self: Any) -> None:
        checks.check_not_empty(self.inter_feat, self.dataset_name, self.config)
        original(self)

    return reset_index


@hook("self", "recbole.data.dataset.sequential_dataset:SequentialDataset.build")
def _build(original: Callable) -> Callable:
    """Feature: noise in training data, for stock sequential models as well."""

    @functools.wraps(original)
    def build(self: Any) -> list[Any]:
        if self.benchmark_filename_list is not None:
            return original(self)
        with strict_for_ours(self.config.model_class):
            checks.check_history_lengths(self.inter_feat[self.uid_field], self.dataset_name)
        datasets = build_with_noise(original, self)
        with strict_for_ours(self.config.model_class):
            checks.check_split(datasets, self.dataset_name, self.config)
            checks.check_catalogue(self.item_num - 1, self.dataset_name, self.config)
        return datasets

    return build


# RecBole reads atomic files with pandas' Python parser; the C parser gives the same values ten times faster.
# In pandas 3 a chained fillna(inplace=True) changes a copy, and Series.agg(len) counts the series instead of
# its elements. Both lines of a pair mean the same in pandas 2.
_C_PARSER = '{"engine": "c", "float_precision": "round_trip"}'
_EACH_LENGTH = (".agg(len)", ".map(len)")
_PANDAS = f"Compatibility: for pandas {pd.__version__}"
_DATASET = "recbole.data.dataset.dataset:Dataset"
patch_source(
    "self filepath source",
    f"{_DATASET}._load_feat",
    f"{_PANDAS} and with its C parser",
    ('engine="python",', f'**({_C_PARSER} if len(field_separator) == 1 else {{"engine": "python"}}),'),
    ('df[field].fillna(value="", inplace=True)', 'df[field] = df[field].fillna(value="")'),
)
patch_source(
    "self",
    f"{_DATASET}._fill_nan",
    _PANDAS,
    ("feat[field].fillna(value=0, inplace=True)", "feat[field] = feat[field].fillna(value=0)"),
    (
        "feat[field].fillna(value=feat[field].mean(), inplace=True)",
        "feat[field] = feat[field].fillna(value=feat[field].mean())",
    ),
)
patch_source("self", f"{_DATASET}._normalize", _PANDAS, _EACH_LENGTH)
patch_source("self", f"{_DATASET}._discretization", _PANDAS, _EACH_LENGTH)
patch_source("self remap_list", f"{_DATASET}._remap", _PANDAS, _EACH_LENGTH)
patch_source(
    "self",
    "recbole.data.dataset.sequential_dataset:SequentialDataset._benchmark_presets",
    _PANDAS,
    _EACH_LENGTH,
)
patch_source(
    "self field idmap id2token token2id",
    "recbole.data.dataset.kg_dataset:KnowledgeBasedDataset._reset_ent_remapID",
    _PANDAS,
    _EACH_LENGTH,
)


@hook(
    "config dataloaders",
    "recbole.data.utils:save_split_dataloaders",
    "recbole.data:save_split_dataloaders",
)
def _save_loaders(original: Callable) -> Callable:
    """Bug: RecBole drops the loaders' generators to pickle them and trains without."""

    @functools.wraps(original)
    def save_split_dataloaders(config: Any, dataloaders: Any) -> None:
        # RecBole takes their generators away to pickle them, and trains without
        generators = [loader.generator for loader in dataloaders]
        original(config, dataloaders)
        for loader, generator in zip(dataloaders, generators):
            loader.generator = loader.sampler.generator = generator

    return save_split_dataloaders


# RecBole's caches run code when opened, whoever put them there
_CHECKED_LOAD = ("pickle.load(f)", 'importlib.import_module("recbole_asarrec.data.caches").load(f, config)')
patch_source(
    "config",
    (
        "recbole.data.utils:create_dataset",
        "recbole.data:create_dataset",
        "recbole.quick_start.quick_start:create_dataset",
    ),
    "Security: opens a pickle only if trust_cache says so, and builds it by today's configuration",
    _CHECKED_LOAD,
    ("if dataset_args_unchanged:", "if dataset_args_unchanged:\n            dataset.config = config"),
)
_SAME = '"seed", "repeatable", "eval_args"'
_OURS = ", ".join(f'"{key}"' for key in ("training", "batching", "exclude_history", *NOISE_KEYS))
patch_source(
    "config",
    ("recbole.data.utils:load_split_dataloaders", "recbole.data:load_split_dataloaders"),
    "Security: opens a pickle only if trust_cache says so, and tells other noise and other rows apart",
    _CHECKED_LOAD,
    (_SAME, f"{_SAME}, {_OURS}"),
)
