"""Sequence-aware NDCG: does a view still say what its user did last? (paper, "Semantic Invariance")

An item's gain is its position in the history (1 = oldest … n = newest), an inserted item's is 0; rank 1 is
the newest position; the original order scores 1. A dropped item leaves a gap that scores 0, like the
irrelevant items of the paper's reference sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from recbole_asarrec.augment.augmenter import TransformMatrix
from recbole_asarrec.augment.index_map import edit_budget
from recbole_asarrec.config.settings import AsarSettings


def _gain_and_discount(length: Tensor, width: int, exponential: bool) -> tuple[Tensor, Tensor]:
    """Gain of each history item and discount of each position, 0 beyond ``length``; both ``[B, width]``."""
    position = torch.arange(width, device=length.device)
    real = position < length[:, None]
    age = (length[:, None] - 1 - position).clamp_min(0).double()  # 0 = newest
    # 2^r − 1, divided by 2^n so that n = 1000 does not overflow; the ratio is the same
    n = length[:, None].double()
    gain = torch.exp2(-age) - torch.exp2(-n) if exponential else position + 1.0
    discount = 1 / torch.log2(age + 2)
    return (gain * real).float(), (discount * real).float()


def sequence_ndcg(transform: TransformMatrix, length: Tensor, exponential: bool = False) -> Tensor:
    """Score a batch of views.

    Args:
        transform: source ``[B, n]`` and soft ``[B, N, N]``.
        length: n per user, ``[B]``.
        exponential: gain ``2^r − 1`` instead of r.

    Returns:
        ``[B]``: hard in value, straight-through in gradient.
    """
    source, soft = transform
    width = source.size(1)
    gain, discount = _gain_and_discount(length, width, exponential)
    ideal = (gain * discount).sum(1)  # [B]
    placed = (source >= 0) & (source < length[:, None])  # filled with a history item
    hard = (gain.gather(1, source.clamp(0, width - 1)) * placed * discount).sum(1)
    passed = ((gain[:, None, :] @ soft[:, :width, :width]).squeeze(1) * discount).sum(1)
    return (hard + passed - passed.detach()) / ideal


def ndcg_floor(length: Tensor, perturbation: float, least: int, exponential: bool = False) -> Tensor:
    """NDCG* of the paper: the score after the most recent ``max(least, ⌊γn⌋)`` items became irrelevant.

    Args:
        length: n per user, ``[B]``.
        perturbation: γ.
        least: the smallest number of items replaced; 0 takes the floor literally.
        exponential: as in :func:`sequence_ndcg`.

    Returns:
        ``[B]``.

    Example:
        >>> ndcg_floor(torch.tensor([15]), 0.1, 1)  # the paper's case study
        tensor([0.7355])
    """
    width = int(length.max())
    gain, discount = _gain_and_discount(length, width, exponential)
    position = torch.arange(width, device=length.device)
    spared = position < (length - edit_budget(length, perturbation, least))[:, None]
    return (gain * discount * spared).sum(1) / (gain * discount).sum(1)


class SequenceQuality(NamedTuple):
    """How much of a history its two views keep.

    Attributes:
        ndcg: :func:`sequence_ndcg` of both views, each ``[B]``.
        floor: NDCG*, ``[B]``.
    """

    ndcg: tuple[Tensor, ...]
    floor: Tensor


def sequence_quality(
    matrices: Sequence[TransformMatrix], length: Tensor, settings: AsarSettings
) -> SequenceQuality:
    """Score the views of histories of ``length`` ``[B]``, always in float32."""
    with torch.autocast(length.device.type, enabled=False):
        exponential = settings.ndcg_gain == "exponential"
        ndcg = tuple(sequence_ndcg(matrix, length, exponential) for matrix in matrices)
        floor = ndcg_floor(length, settings.perturbation_budget, settings.min_edits, exponential)
    return SequenceQuality(ndcg, floor)


def semantic_loss(quality: SequenceQuality) -> Tensor:
    """``Σ_z max(0, NDCG* − NDCG_z)``, mean over users."""
    return torch.stack([(quality.floor - score).clamp_min(0) for score in quality.ndcg]).sum(0).mean()
