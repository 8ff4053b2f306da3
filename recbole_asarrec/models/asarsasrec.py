"""
AsarSASRec
################################################

Reference:
    "AsarRec: Adaptive Sequential Augmentation for Robust Self-supervised Sequential Recommendation."

Reference:
    Wang-Cheng Kang et al. "Self-Attentive Sequential Recommendation." in ICDM 2018.
"""

from __future__ import annotations

from typing import Any

import torch
from recbole.model.sequential_recommender.sasrec import SASRec
from torch import Tensor, nn

from recbole_asarrec.kernels.last_position import last_position
from recbole_asarrec.models.asarrec import AsarRec, OnEmbed


class AsarSASRec(AsarRec, SASRec):
    """RecBole's SASRec, trained with learned views; inference is SASRec's."""

    backbone = SASRec
    causal = True
    padding_invariant = True
    inner_product = True

    position_embedding: nn.Embedding
    LayerNorm: nn.LayerNorm
    dropout: nn.Module
    trm_encoder: Any
    get_attention_mask: Any
    gather_indexes: Any

    def encode(
        self, items: Tensor, length: Tensor, *, every_position: bool = False, on_embed: OnEmbed | None = None
    ) -> Tensor:
        """SASRec's forward pass, ``[B, n] → [B, d]`` or ``[B, n, d]``."""
        position_ids = torch.arange(items.size(1), device=items.device).expand_as(items)
        position_embedded = self.position_embedding(position_ids)  # [B, n, d]
        embedded = self.item_embedding(items)
        embedded = on_embed(embedded) if on_embed else embedded
        hidden = self.dropout(self.LayerNorm(embedded + position_embedded))
        mask = self.get_attention_mask(items)  # [B, 1, n, n]
        *before, last = self.trm_encoder.layer
        for layer in before:
            hidden = layer(hidden, mask)
        if every_position:
            every: Tensor = last(hidden, mask)
            return every
        if self.settings.fused:
            return last_position(last, hidden, mask, length - 1)
        last_hidden: Tensor = self.gather_indexes(last(hidden, mask), length - 1)
        return last_hidden

    def forward(self, item_seq: Tensor, item_seq_len: Tensor) -> Tensor:
        """SASRec's, ``[B, n] → [B, d]``."""
        return self.encode(item_seq, item_seq_len)
