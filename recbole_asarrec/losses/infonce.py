"""InfoNCE between two views (paper, "Informativeness Constraint"; van den Oord et al. 2018)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def info_nce(
    first: Tensor, second: Tensor, users: Tensor, temperature: float, symmetric: bool = False
) -> Tensor:
    """Cross-entropy of finding a row's own second view among those of the batch.

    Rows of one user are never negatives of each other.

    Args:
        first: encoded first views, ``[R, d]``.
        second: encoded second views, ``[R, d]``.
        users: whose rows they are, ``[R]``.
        temperature: τ.
        symmetric: average with the same from second to first; the paper writes one way.

    Returns:
        The mean over rows, a scalar: ``log R`` for indistinguishable rows, 0 for R = 1.
    """
    one, two = F.normalize(first.float(), dim=-1), F.normalize(second.float(), dim=-1)
    similarity = one @ two.T / temperature  # [R, R]
    row = torch.arange(len(users), device=users.device)
    same_user = (users[:, None] == users[None, :]) & (row[:, None] != row[None, :])
    similarity = similarity.masked_fill(same_user, -torch.inf)
    loss = F.cross_entropy(similarity, row)
    if symmetric:
        loss = (loss + F.cross_entropy(similarity.T, row)) / 2
    return loss
