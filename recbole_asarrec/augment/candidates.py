"""The k items a user has not seen that Insert and Substitute may bring in (paper, section 4.1)."""

from __future__ import annotations

import torch
from torch import Tensor

_TRIES = 32  # a draw that collides is drawn again this often; then the position stays empty


@torch.no_grad()
def sample_unseen(seen: Tensor, count: int, n_items: int) -> Tensor:
    """Draw ``count`` different items per row, uniformly among those that are not in ``seen``.

    Args:
        seen: item ids to avoid, 0 for padding, ``[B, n]``.
        count: k, how many to draw.
        n_items: size of the catalogue including padding; ids run from 1 to ``n_items − 1``.

    Returns:
        ``[B, count]`` ids; 0 where the catalogue holds too few unseen items.
    """
    drawn = seen.new_zeros(seen.size(0), count)
    if n_items < 2:
        return drawn
    earlier = torch.ones(count, count, dtype=torch.bool, device=seen.device).tril(-1)
    for _ in range(_TRIES):
        empty = drawn == 0
        if not empty.any():
            break
        fresh = torch.randint(1, n_items, drawn.shape, device=seen.device)
        drawn = torch.where(empty, fresh, drawn)
        twice = ((drawn[:, :, None] == drawn[:, None, :]) & earlier).any(2)
        known = (drawn[:, :, None] == seen[:, None, :]).any(2)
        drawn = drawn.masked_fill(twice | known, 0)
    return drawn
