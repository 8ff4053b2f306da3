"""New items that are similar to items of the history (CoSeRec's informative augmentations)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recbole_asarrec.augment.candidates import sample_unseen
from recbole_asarrec.augment.view_pair import Embed

_ALIKE = 10  # similar items looked at, in case the user has seen the first


@torch.no_grad()
def similar_items(anchors: Tensor, neighbours: Tensor | None, embed: Embed, n_items: int) -> Tensor:
    """The items most similar to each anchor, best first, 0 for none, ``[R, k] → [R, k, top]``.

    Args:
        anchors: item ids, 0 for none.
        neighbours: similar items of every item, ``[n_items, top]``; the model's embeddings decide where there
            are none.
        embed: see :mod:`recbole_asarrec.augment.view_pair`.
        n_items: size of the catalogue, padding included.
    """
    if neighbours is not None:
        return neighbours[anchors]
    everything = torch.arange(n_items, device=anchors.device)
    _, table = embed(everything[None], 0)  # a catalogue, no history: it has no positions
    table = normalize(table[0], dim=-1)
    which, back = anchors.unique(return_inverse=True)
    alike = table[which] @ table.T  # [different anchors, items]
    alike[:, 0] = -torch.inf
    alike[torch.arange(len(which)), which] = -torch.inf
    return alike.topk(min(_ALIKE, n_items - 1), dim=1).indices[back]


@torch.no_grad()
def most_similar_unseen(anchors: Tensor, similar: Tensor, avoid: Tensor, n_items: int) -> Tensor:
    """For each anchor the most similar item that the user has not seen.

    Args:
        anchors: item ids, 0 for none, ``[B, k]``.
        similar: similar items of each anchor, best first, 0 for none, ``[B, k, top]``.
        avoid: item ids the user has seen, ``[B, n]``.
        n_items: size of the catalogue, padding included.

    Returns:
        ``[B, k]``, different items in a row; uniform among the unseen where no similar one is left, 0 where
        there is no anchor.
    """
    uniform = sample_unseen(avoid, anchors.size(1), n_items)
    chosen = torch.zeros_like(anchors)
    for slot in range(anchors.size(1)):  # k is a handful; users are all at once
        taken = torch.cat([avoid, chosen[:, :slot]], dim=1)
        options = similar[:, slot]  # [B, top]
        fresh = (options > 0) & (options[:, :, None] != taken[:, None, :]).all(2)
        best = options.gather(1, fresh.long().argmax(1, keepdim=True)).squeeze(1)
        spare = uniform[:, slot]
        spare = torch.where((spare[:, None] == chosen[:, :slot]).any(1), 0, spare)
        chosen[:, slot] = torch.where(fresh.any(1), best, spare)
    return chosen.masked_fill(anchors == 0, 0)
