"""S3Rec's predictive augmentation: recover what was masked, instead of comparing two views.

Zhou et al. "S3-Rec: Self-Supervised Learning for Sequential Recommendation with Mutual Information
Maximization." CIKM 2020. Its masked-item and masked-segment tasks; without attributes, and from one vector a
history instead of one a position, so that every backbone can take part.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_asarrec.augment.candidates import sample_unseen
from recbole_asarrec.augment.index_map import edit_budget
from recbole_asarrec.augment.operations import crop, mask
from recbole_asarrec.augment.view import View, build_view
from recbole_asarrec.config.settings import AsarSettings

ITEM_WEIGHT, SEGMENT_WEIGHT = 1.0, 0.5  # mip_weight ÷ 1, sp_weight of RecBole's S3Rec


class MaskedPrediction(nn.Module):
    """Two pairwise tasks on a history with a share γ of it hidden.

    Args:
        settings: the budget's keys.
        embedding_size: d.
        n_items: size of the catalogue, padding included.
    """

    def __init__(self, settings: AsarSettings, embedding_size: int, n_items: int) -> None:
        super().__init__()
        self.settings, self.n_items = settings, n_items
        self.to_item = nn.Linear(embedding_size, embedding_size)
        self.to_segment = nn.Linear(embedding_size, embedding_size)

    def forward(
        self,
        history: Tensor,
        length: Tensor,
        target: Tensor,
        encode: Callable[[View], Tensor],
        embedding: nn.Embedding,
    ) -> Tensor:
        """The weighted loss of R histories ``[R, n]``, a scalar; histories of one item take no part."""
        able = length > 1
        if not able.any():
            return history.new_zeros((), dtype=torch.float)
        history, length, target = history[able], length[able], target[able]
        options = self.settings
        edits = edit_budget(length, options.operation_budget, max(1, options.min_edits)).minimum(length - 1)
        items = self._items(history, length, target, edits, encode, embedding)
        return ITEM_WEIGHT * items + SEGMENT_WEIGHT * self._segments(history, length, edits, encode)

    def _items(
        self,
        history: Tensor,
        length: Tensor,
        target: Tensor,
        edits: Tensor,
        encode: Callable[[View], Tensor],
        embedding: nn.Embedding,
    ) -> Tensor:
        """A hidden item must score higher than one the user has not seen."""
        index_map = mask(length, history.size(1), edits)
        hidden = (index_map.source < 0) & (history > 0)  # [R, n]
        context = self.to_item(encode(build_view(history, index_map.source)))  # [R, d]
        avoid = torch.cat([history, target[:, None]], dim=1)
        other = sample_unseen(avoid, 1, self.n_items)  # [R, 1]
        right = (context[:, None] * embedding(history)).sum(-1)  # [R, n]
        wrong = (context[:, None] * embedding(other)).sum(-1)  # [R, 1]
        return F.softplus(wrong - right)[hidden & (other > 0)].mean().nan_to_num()

    def _segments(
        self, history: Tensor, length: Tensor, edits: Tensor, encode: Callable[[View], Tensor]
    ) -> Tensor:
        """A hidden segment must fit its own history better than the next user's does."""
        segment = crop(length, history.size(1), length - edits).source  # a run of `edits` items
        position = torch.arange(history.size(1), device=history.device).expand_as(history)
        rest = torch.where((segment < 0) & (history > 0), position, -1)
        context = self.to_segment(encode(build_view(history, rest)))
        inside = encode(build_view(history, segment))
        right = (context * inside).sum(-1)
        wrong = (context * inside.roll(1, dims=0)).sum(-1)
        return F.softplus(wrong - right).mean()
