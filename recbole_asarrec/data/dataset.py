"""RecBole's sequential dataset with one training row a user marked as the user's own."""

from __future__ import annotations

import numpy as np
import torch
from recbole.data.dataset import SequentialDataset

CONTRASTIVE_ROW = "contrastive_row"  # name of the mark in a batch


def last_row_of_user(users: np.ndarray) -> np.ndarray:
    """Mark the last row of every user: ``[rows] → [rows]``, bool."""
    _, from_the_end = np.unique(users[::-1], return_index=True)
    last = np.zeros(len(users), dtype=bool)
    last[len(users) - 1 - from_the_end] = True
    return last


class AsarDataset(SequentialDataset):
    """Training rows carry :data:`CONTRASTIVE_ROW`: true for the user's longest history, once an epoch."""

    def build(self) -> list[SequentialDataset]:
        """Split as RecBole does, then mark the training rows."""
        datasets: list[SequentialDataset] = super().build()
        rows = datasets[0].inter_feat
        rows[CONTRASTIVE_ROW] = torch.from_numpy(last_row_of_user(rows[self.uid_field].numpy()))
        return datasets
