"""New items chosen by what they stand beside (CoSeRec's informative augmentations)."""

from __future__ import annotations

import torch
from torch import Tensor

from recbole_asarrec.augment.candidates import sample_unseen


@torch.no_grad()
def most_similar_unseen(anchors: Tensor, neighbours: Tensor, avoid: Tensor, n_items: int) -> Tensor:
    """For each anchor the most similar item that the user has not seen.

    Args:
        anchors: item ids, 0 for none, ``[B, k]``.
        neighbours: similar items of each anchor, best first, 0 for none, ``[B, k, top]``.
        avoid: item ids the user has seen, ``[B, n]``.
        n_items: size of the catalogue, padding included.

    Returns:
        ``[B, k]``, different items in a row; uniform among the unseen where no neighbour is left, 0 where
        there is no anchor.
    """
    uniform = sample_unseen(avoid, anchors.size(1), n_items)
    chosen = torch.zeros_like(anchors)
    for slot in range(anchors.size(1)):  # k is a handful; users are all at once
        taken = torch.cat([avoid, chosen[:, :slot]], dim=1)
        options = neighbours[:, slot]  # [B, top]
        fresh = (options > 0) & (options[:, :, None] != taken[:, None, :]).all(2)
        best = options.gather(1, fresh.long().argmax(1, keepdim=True)).squeeze(1)
        spare = uniform[:, slot]
        spare = torch.where((spare[:, None] == chosen[:, :slot]).any(1), 0, spare)
        chosen[:, slot] = torch.where(fresh.any(1), best, spare)
    return chosen.masked_fill(anchors == 0, 0)
