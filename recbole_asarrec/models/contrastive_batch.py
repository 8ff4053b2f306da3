"""The histories of a batch that views are made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.data import CONTRASTIVE_ROW, TARGETS, Columns

# contrasted in one batch, all of a usual one: the cost of InfoNCE grows with their square
MAX_POSITIONS = 320


class ContrastiveBatch(NamedTuple):
    """R histories to make views of.

    Attributes:
        items: item ids, 0 for padding, ``[R, n]``.
        length: how many there are, ``[R]``.
        target: the items that come next, ``[R]``.
        users: whose they are, ``[R]``.
        per_position: contrast every position that both views share, not only the full histories.
    """

    items: Tensor
    length: Tensor
    target: Tensor
    users: Tensor
    per_position: bool

    @classmethod
    def take(cls, batch: Any, rows: Tensor, columns: Columns, settings: AsarSettings) -> ContrastiveBatch:
        """The given rows ``[R]`` of a batch of rows or sequences."""
        length = batch[columns.length][rows]
        items = batch[columns.items][rows, : int(length.max())]
        per_position = TARGETS in batch and settings.contrast_on == "prefix"  # sequences hold all prefixes
        return cls(items, length, batch[columns.target][rows], batch[columns.user][rows], per_position)


def choose_rows(batch: Any, columns: Columns, settings: AsarSettings) -> Tensor:
    """Indices of the rows that are contrasted, ``[R]``; none in batches that ``contrast_ratio`` skips."""
    length = batch[columns.length]
    every = torch.arange(len(length), device=length.device)
    if settings.contrast_on == "user":
        return every[batch[CONTRASTIVE_ROW]] if CONTRASTIVE_ROW in batch else every
    if settings.contrast_ratio < 1 and torch.rand(()) >= settings.contrast_ratio:
        return every[:0]
    if TARGETS in batch and int(length.sum()) > MAX_POSITIONS:
        return _sample_rows(length, MAX_POSITIONS)
    return every


def _sample_rows(length: Tensor, most: int) -> Tensor:
    """Random rows of ``length`` ``[B]`` with at most ``most`` positions, at least one, ``[R]``."""
    rows = torch.randperm(len(length)).to(length.device)
    fitting = rows[length[rows].cumsum(0) <= most]
    return fitting.sort().values if len(fitting) else rows[:1]
