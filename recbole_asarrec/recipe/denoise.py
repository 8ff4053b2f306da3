"""Denoising: drop items that do not fit into their history from what a recommender learns from.

An item fits if its embedding is nearer to the rest of the history than those of random items are. Noise does
no better than they do, so it is dropped more often than what a user meant. While the embeddings are
uninformative, nothing is dropped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_asarrec.data import Columns
from recbole_asarrec.recipe.denoised_batch import keep, sequences

_RANDOM_ITEMS = 256  # that a history's own items are compared with


class Kept(NamedTuple):
    """What denoising kept of a batch.

    Attributes:
        sequence: histories with their targets, ``[B, n+1]``.
        kept: which items stay, ``[B, n+1]``.
    """

    sequence: Tensor
    kept: Tensor


class Denoiser:
    """Drops items from training sequences, redrawn at every batch.

    Args:
        strength: factor on the drop probability; 0 drops nothing.
        mode: ``score`` drops by how poorly an item fits, ``random`` as many at random (the control).
        columns: names of the batch's columns.
    """

    def __init__(self, strength: float, mode: str, columns: Columns) -> None:
        self.strength, self.mode, self.columns = strength, mode, columns

    def __call__(self, interaction: Any, embeddings: Tensor) -> tuple[Any, Kept | None]:
        """The batch without the dropped items, and what was kept; item ``embeddings`` ``[V, d]``."""
        if not self.strength:
            return interaction, None
        sequence = sequences(interaction, self.columns)  # [B, n+1]
        kept = sample_kept(sequence, self.drop_probability(sequence, embeddings))
        return keep(interaction, self.columns, sequence, kept), Kept(sequence, kept)

    def drop_probability(self, sequence: Tensor, embeddings: Tensor) -> Tensor:
        """The drop probability of each item, ``[B, n] → [B, n]``."""
        probability = drop_probability(sequence, embeddings.detach(), self.strength)
        return shuffle(probability, sequence > 0) if self.mode == "random" else probability


@torch.no_grad()
def outlier_score(items: Tensor, embeddings: Tensor) -> Tensor:
    """The share of random items that are nearer to the rest of the history than its own item is.

    Args:
        items: ids, 0 for padding, ``[B, n]``.
        embeddings: of the catalogue, padding first, ``[V, d]``.

    Returns:
        From 0 (fits best) to 1, 0 for padding, ``[B, n]``.
    """
    embeddings = embeddings.float()
    center = embeddings[1:].mean(0)
    real = items > 0
    random_items = torch.randint(1, len(embeddings), (_RANDOM_ITEMS,), device=items.device)
    near = F.normalize(embeddings[items] - center, dim=-1) * real.unsqueeze(-1)  # [B, n, d]
    whole = near.sum(1)  # [B, d]
    count = real.sum(1, keepdim=True)  # [B, 1]
    own = (near @ whole.unsqueeze(-1)).squeeze(-1) - 1  # Σ of cosines to the others, [B, n]
    own = own / (count - 1).clamp_min(1)
    other = whole @ F.normalize(embeddings[random_items] - center, dim=-1).T / count.clamp_min(1)  # [B, 256]
    beaten = torch.searchsorted(other.sort(1).values, own.contiguous())  # [B, n]
    return (1 - beaten / _RANDOM_ITEMS) * real


@torch.no_grad()
def drop_probability(items: Tensor, embeddings: Tensor, strength: float) -> Tensor:
    """The outlier score, scaled by how informative the embeddings are in this batch.

    If items fitted no better than random ones, their score would be a half on average. The share by which it
    is less is how far the embeddings can be trusted: 0 before training.

    Args:
        items: ids, 0 for padding, ``[B, n]``.
        embeddings: of the catalogue, padding first, ``[V, d]``.
        strength: factor on all of it.

    Returns:
        From 0 to 1, 0 for padding, ``[B, n]``.
    """
    score = outlier_score(items, embeddings)
    confidence = 1 - 2 * score.sum() / (items > 0).sum().clamp_min(1)
    return (strength * confidence.clamp_min(0) * score).clamp_max(1)


@torch.no_grad()
def shuffle(probability: Tensor, real: Tensor) -> Tensor:
    """The same probabilities dealt out at random among each row's real items, ``[B, n]``."""
    order = torch.rand_like(probability).masked_fill(~real, torch.inf).argsort(1)  # real ones first
    position = (~real).long().argsort(dim=1, stable=True)
    return torch.zeros_like(probability).scatter(1, position, probability.gather(1, order))


@torch.no_grad()
def sample_kept(items: Tensor, probability: Tensor) -> Tensor:
    """Draw which items stay, ``[B, n]``; a history of which fewer than two would stay is left whole."""
    real = items > 0
    kept = real & (torch.rand_like(probability) >= probability)
    return torch.where(kept.sum(1, keepdim=True) < 2, real, kept)
