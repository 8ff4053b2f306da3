"""Uniform negatives that a user has not interacted with in training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_TRIES = 32  # a draw that the user has seen is drawn again this often; then it stays


class UnseenNegatives(nn.Module):
    """Draws items uniformly from the catalogue without those of the user's training sequence.

    Args:
        users: of every training interaction, ``[N]``.
        items: of every training interaction, ``[N]``.
        n_items: size of the catalogue, padding included.
    """

    pairs: Tensor

    def __init__(self, users: np.ndarray, items: np.ndarray, n_items: int) -> None:
        super().__init__()
        self.n_items = n_items
        pairs = np.unique(users.astype(np.int64) * n_items + items)
        self.register_buffer("pairs", torch.from_numpy(pairs), persistent=False)  # sorted, [N]

    @classmethod
    def of(cls, dataset: Any, n_items: int) -> UnseenNegatives:
        """Of a training dataset; a mere catalogue has no interactions, and nothing to train on."""
        if getattr(dataset, "inter_feat", None) is None:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), n_items)
        matrix = dataset.inter_matrix("coo")
        return cls(matrix.row, matrix.col, n_items)

    @torch.no_grad()
    def forward(self, users: Tensor, count: int) -> Tensor:
        """``count`` negatives for each user ``[P]``, with replacement, ``[P, count]``."""
        drawn = torch.randint(1, max(self.n_items, 2), (len(users), count), device=users.device)
        if not len(self.pairs):
            return drawn
        for _ in range(_TRIES):
            seen = self._seen(users[:, None] * self.n_items + drawn)
            if not seen.any():
                break
            drawn = torch.where(seen, torch.randint_like(drawn, 1, max(self.n_items, 2)), drawn)
        return drawn

    def _seen(self, pairs: Tensor) -> Tensor:
        """Which of ``pairs`` are in training."""
        at = torch.searchsorted(self.pairs, pairs).clamp_max(len(self.pairs) - 1)
        return self.pairs[at] == pairs
