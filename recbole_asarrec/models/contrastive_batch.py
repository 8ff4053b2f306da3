"""The histories of a batch that views are made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.data import CONTRASTIVE_ROW, TARGETS, Columns

MAX_POSITIONS = (
    320  # contrasted in one batch, all of a usual one: the cost of InfoNCE grows with their square
)


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
    if settings.contrast_on == "user":
        if CONTRASTIVE_ROW in batch:
            return batch[CONTRASTIVE_ROW].nonzero().squeeze(1)
        return torch.arange(len(length), device=length.device)
    if settings.contrast_ratio < 1 and torch.rand(()) >= settings.contrast_ratio:
        return torch.arange(0, device=length.device)
    return (
        _limit(length, MAX_POSITIONS) if TARGETS in batch else torch.arange(len(length), device=length.device)
    )


def _limit(length: Tensor, most: int) -> Tensor:
    """All rows of ``length`` ``[B]``, or random ones with at most ``most`` positions, ``[R]``."""
    rows = torch.arange(len(length), device=length.device)
    if int(length.sum()) <= most:
        return rows
    rows = torch.randperm(len(length)).to(length.device)
    fitting = rows[length[rows].cumsum(0) <= most]
    return fitting.sort().values if len(fitting) else rows[:1]
