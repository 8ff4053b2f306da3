"""RecBole's sequential dataset, built by NumPy and without copies of histories."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from recbole.data.dataset import SequentialDataset
from recbole.data.interaction import Interaction

from recbole_asarrec.config.resolve import resolve
from recbole_asarrec.data.rows import FIRST, START, Histories, Rows, prefix_rows

CONTRASTIVE_ROW = "contrastive_row"  # column of training rows: true for a user's longest history


def last_row_of_user(users: np.ndarray) -> np.ndarray:
    """Mark the last row of every user: ``[rows] → [rows]``, bool."""
    _, from_the_end = np.unique(users[::-1], return_index=True)
    last = np.zeros(len(users), dtype=bool)
    last[len(users) - 1 - from_the_end] = True
    return last


def leave_out(groups: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """RecBole's leave-one-out for all groups at once.

    Args:
        groups: the group of each row, ``[N]``; rows of a group in their order, not necessarily together.
        count: how many of a group's last rows to leave out; a group always keeps one.

    Returns:
        The rows ordered by group (groups in the order they first appear), and for each how many parts from
        the end it belongs to: 1 for the last part, 2 for the one before, 0 for training; both ``[N]``.
    """
    _, appears, group, size = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    turn = np.empty_like(appears)
    turn[np.argsort(appears)] = np.arange(len(appears))
    order = np.argsort(turn[group], kind="stable")
    size = size[group[order]]
    begins = np.flatnonzero(np.r_[True, group[order][1:] != group[order][:-1]])
    position = np.arange(len(order)) - np.repeat(begins, size[begins])
    from_the_end = size - position
    return order, np.where(from_the_end <= np.minimum(count, size - 1), from_the_end, 0)


class AsarDataset(SequentialDataset):
    """The rows of RecBole's ``SequentialDataset``, in the same order, cut from histories batch by batch.

    Training rows carry :data:`CONTRASTIVE_ROW`, so that each user's full history meets the contrastive term
    once an epoch.
    """

    inter_feat: Any

    def data_augmentation(self) -> None:
        """Make the rows: a user of n interactions has n − 1."""
        self._aug_presets()
        self._check_field("uid_field", "time_field")
        self.sort(by=[self.uid_field, self.time_field], ascending=True)
        every = self.inter_feat
        target, start, first = prefix_rows(every[self.uid_field].numpy(), self.max_item_list_len)
        lists = {getattr(self, f"{name}_list_field"): every[name] for name in every if name != self.uid_field}
        columns = {name: every[name][torch.from_numpy(target)] for name in every}
        columns[self.item_list_length_field] = torch.from_numpy(target - start)
        columns[START], columns[FIRST] = torch.from_numpy(start), torch.from_numpy(first)
        self.inter_feat = Rows(columns, Histories(lists, self.item_list_length_field, self.max_item_list_len))

    def leave_one_out(self, group_by: str, leave_one_mode: str) -> list[SequentialDataset]:
        """RecBole's split, without a Python loop over interactions."""
        parts = {"valid_and_test": (0, 2, 1), "valid_only": (0, 1, None), "test_only": (0, None, 1)}
        if leave_one_mode not in parts or group_by is None:
            return super().leave_one_out(group_by, leave_one_mode)
        count = 2 if leave_one_mode == "valid_and_test" else 1
        order, part = leave_out(self.inter_feat[group_by].numpy(), count)
        self._drop_unused_col()
        none = order[:0]
        rows = [none if wanted is None else order[part == wanted] for wanted in parts[leave_one_mode]]
        return [self.copy(self.inter_feat[torch.from_numpy(index)]) for index in rows]

    def build(self) -> list[SequentialDataset]:
        """Split as RecBole does, mark the training rows, and settle what depends on them."""
        datasets: list[SequentialDataset] = super().build()
        resolve(self.config, datasets[0])
        rows = datasets[0].inter_feat
        rows[CONTRASTIVE_ROW] = torch.from_numpy(last_row_of_user(rows[self.uid_field].numpy()))
        return datasets

    def __getitem__(self, index: Any, join: bool = True) -> Interaction:
        rows = self.inter_feat[index]
        if isinstance(rows, Rows):
            rows = rows.materialize()
        return self.join(rows) if join else rows

    def inter_matrix(self, form: str = "coo", value_field: str | None = None) -> Any:
        """All interactions of these rows as a sparse matrix, ``[users, items]``."""
        rows = self.inter_feat
        if not isinstance(rows, Rows):
            return super().inter_matrix(form, value_field)
        # a user's first interaction is nobody's target: it is the history of the row of length 1
        alone = rows[rows[self.item_list_length_field] == 1]
        first = {
            name: rows.histories.fields.get(name + self.config["LIST_SUFFIX"])
            for name in (self.iid_field, value_field)
            if name
        }
        columns = {self.uid_field: torch.cat([rows[self.uid_field], alone[self.uid_field]])}
        for name, values in first.items():
            if values is not None:
                columns[name] = torch.cat([rows[name], values[alone[START]]])
        every = Interaction(columns)
        return self._create_sparse_matrix(every, self.uid_field, self.iid_field, form, value_field)
