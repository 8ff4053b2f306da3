"""Items a user already had, among the answers of the next-item softmax."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def every_prefix(history: Tensor) -> Tensor:
    """What was had at each place, that place included: ``[B, n] → [B, n, n]``, 0 for nothing."""
    return history[:, None, :].expand(-1, history.size(1), -1).tril()


def heavier(scores: Tensor, targets: Tensor, seen: Tensor, weight: float) -> Tensor:
    """Scores whose softmax counts the items of ``seen`` ``weight`` times, the target always once.

    Args:
        scores: ``[P, V]``.
        targets: ``[P]``.
        seen: 0 for none, ``[P, h]``.
        weight: at least 1.
    """
    lift = torch.zeros_like(scores).scatter_(1, seen, math.log(weight))
    lift[:, 0] = 0.0
    return scores + lift.scatter_(1, targets[:, None], 0.0)


def share_of_repeats(dataset: Any) -> float:
    """The share of a training dataset's targets that are their user's target more than once."""
    rows = dataset.inter_feat
    pairs = rows[dataset.uid_field] * dataset.item_num + rows[dataset.iid_field]  # [N]
    return 1 - len(pairs.unique()) / len(pairs) if len(pairs) else 0.0
