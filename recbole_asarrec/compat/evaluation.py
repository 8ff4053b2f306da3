"""RecBole's full ranking for sequential models, without the items of the history where that is asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from recbole_asarrec.compat.patching import hook
from recbole_asarrec.data.rows import FIRST, prefix_rows, seen_before_target

_TARGET = "row_target"  # internal column beside FIRST: where the row's target is among all interactions


@hook("self", "recbole.data.dataset.sequential_dataset:SequentialDataset.data_augmentation")
def _data_augmentation(original: Callable) -> Callable:
    """Feature: exclude_history needs to know where a row was cut from."""

    @functools.wraps(original)
    def data_augmentation(self: Any) -> None:
        # RecBole's rows are cut to L and forget where they were cut from
        self._check_field("uid_field", "time_field")
        self.sort(by=[self.uid_field, self.time_field], ascending=True)
        users, self.all_items = self.inter_feat[self.uid_field].numpy(), self.inter_feat[self.iid_field]
        target, _, first = prefix_rows(users, self.max_item_list_len)
        original(self)
        self.inter_feat[_TARGET], self.inter_feat[FIRST] = torch.from_numpy(target), torch.from_numpy(first)

    return data_augmentation


@hook(
    "self index",
    "recbole.data.dataloader.general_dataloader:FullSortEvalDataLoader.collate_fn",
)
def _collate(original: Callable) -> Callable:
    """Feature: exclude_history leaves the user's history out of the ranking."""

    @functools.wraps(original)
    def collate_fn(self: Any, index: Any) -> Any:
        batch, seen, users, items = original(self, index)
        wanted = getattr(self, "gives_history", self.config["exclude_history"])
        if self.is_sequential and wanted and _TARGET in batch:
            seen = seen_before_target(self._dataset.all_items, batch[FIRST], batch[_TARGET], items)
        return batch, seen, users, items

    return collate_fn
