"""Two views of a user must differ (paper, "Diversity Constraint")."""

from __future__ import annotations

import torch
from torch import Tensor

from recbole_asarrec.augment.augmenter import TransformMatrix


def _mass(values: Tensor, source: Tensor) -> Tensor:
    """Sum of ``values[b, source[b, j], j]`` over filled positions j: ``[B, N, N], [B, n] → [B]``."""
    picked = values[:, :, : source.size(1)].gather(1, source.clamp_min(0)[:, None, :]).squeeze(1)
    return picked.masked_fill(source < 0, 0.0).sum(1)


def matrix_distance(first: TransformMatrix, second: TransformMatrix) -> Tensor:
    """``‖M¹ − M²‖²`` over the kept columns, ``[B]``: hard in value, straight-through in gradient."""
    one, two = first.source, second.source
    filled = (one >= 0).sum(1) + (two >= 0).sum(1)
    shared = ((one == two) & (one >= 0)).sum(1)
    hard = (filled - 2 * shared).to(first.soft.dtype)
    # d‖M¹ − M²‖² = 2⟨M¹ − M², dS¹ − dS²⟩ with the hard matrices held fixed
    slope = 2 * (
        _mass(first.soft, one) - _mass(first.soft, two) - _mass(second.soft, one) + _mass(second.soft, two)
    )
    return hard + slope - slope.detach()


def diversity_loss(
    first: TransformMatrix, second: TransformMatrix, length: Tensor, margin: float, ratio: float
) -> Tensor:
    """``max(0, ε − ‖M¹ − M²‖²)``, mean over users.

    Args:
        first: the first view's transform.
        second: the second's.
        length: n per user, ``[B]``.
        margin: ε of the paper (20).
        ratio: ρ; a user's ε is ``min(margin, ρ·2n)``, because short histories cannot differ by 20. 0 takes
            the margin literally.
    """
    target = torch.full_like(first.soft[:, 0, 0], margin)
    if ratio:
        target = target.minimum(ratio * 2 * length.to(target.dtype))
    return (target - matrix_distance(first, second)).clamp_min(0).mean()
