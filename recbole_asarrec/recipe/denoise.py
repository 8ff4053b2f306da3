"""Which items to leave out of a history that a recommender learns from: those that do not fit into it.

An item fits if its embedding is nearer to the rest of the history than those of random items are. Noise does
no better than they do, so it goes more often than what a user meant. Where embeddings know nothing, nothing
goes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_RIVALS = 256  # random items that a history's own are measured against


@torch.no_grad()
def misfit(items: Tensor, embeddings: Tensor) -> Tensor:
    """The share of random items that are nearer to the rest of the history than its own item is.

    Args:
        items: ids, 0 for padding, ``[B, n]``.
        embeddings: of the catalogue, padding first, ``[V, d]``.

    Returns:
        From 0 (fits best) to 1, 0 for padding, ``[B, n]``.
    """
    embeddings = embeddings.float()
    centre = embeddings[1:].mean(0)
    real = items > 0
    rivals = torch.randint(1, len(embeddings), (_RIVALS,), device=items.device)
    near = F.normalize(embeddings[items] - centre, dim=-1) * real.unsqueeze(-1)  # [B, n, d]
    whole = near.sum(1)  # [B, d]
    count = real.sum(1, keepdim=True)  # [B, 1]
    own = (near @ whole.unsqueeze(-1)).squeeze(-1) - 1  # Σ of cosines to the others, [B, n]
    own = own / (count - 1).clamp_min(1)
    other = whole @ F.normalize(embeddings[rivals] - centre, dim=-1).T / count.clamp_min(1)  # [B, rivals]
    beaten = torch.searchsorted(other.sort(1).values, own.contiguous())  # [B, n]
    return (1 - beaten / _RIVALS) * real


@torch.no_grad()
def chance_to_leave_out(items: Tensor, embeddings: Tensor, strength: float) -> Tensor:
    """The misfit, times how much better than chance misfits are known in this batch.

    If items fitted no better than random ones, their misfit would be a half on average. The share by which it
    is less is how far the embeddings can be trusted: 0 before training.

    Args:
        items: ids, 0 for padding, ``[B, n]``.
        embeddings: of the catalogue, padding first, ``[V, d]``.
        strength: factor on all of it.

    Returns:
        From 0 to 1, 0 for padding, ``[B, n]``.
    """
    unfit = misfit(items, embeddings)
    known = 1 - 2 * unfit.sum() / (items > 0).sum().clamp_min(1)
    return (strength * known.clamp_min(0) * unfit).clamp_max(1)


@torch.no_grad()
def shuffled(chances: Tensor, real: Tensor) -> Tensor:
    """The same chances dealt out at random among each row's real items: the control, ``[B, n]``."""
    order = torch.rand_like(chances).masked_fill(~real, torch.inf).argsort(1)  # real ones first
    places = (~real).long().argsort(dim=1, stable=True)
    return torch.zeros_like(chances).scatter(1, places, chances.gather(1, order))


@torch.no_grad()
def choose_kept(items: Tensor, chances: Tensor) -> Tensor:
    """Draw who stays, ``[B, n]``; a history of which fewer than two would stay is left whole."""
    real = items > 0
    kept = real & (torch.rand_like(chances) >= chances)
    return torch.where(kept.sum(1, keepdim=True) < 2, real, kept)
