"""The transition encoder: a user's expanded sequence → two transition logits (paper, section 4.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class TransitionEncoder(nn.Module):
    """Shared projection W, then an independent query/key pair per view.

    Args:
        embedding_size: d, the recommender's embedding size.
        hidden_size: d′, the encoder's own.
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.project = nn.Linear(embedding_size, hidden_size, bias=False)
        self.query = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.key = nn.Linear(hidden_size, 2 * hidden_size, bias=False)

    def forward(self, expanded: Tensor) -> Tensor:
        """Score every item of ``s*`` for every position.

        Args:
            expanded: embeddings of ``s*``, ``[B, N, d]``.

        Returns:
            Logits before the softmax, ``[2, B, N, N]``: one matrix per view.
        """
        hidden = self.project(expanded)  # [B, N, d']
        query, key = (
            torch.stack(layer(hidden).chunk(2, dim=-1))  # [2, B, N, d']
            for layer in (self.query, self.key)
        )
        return query @ key.transpose(-1, -2) / math.sqrt(self.hidden_size)
