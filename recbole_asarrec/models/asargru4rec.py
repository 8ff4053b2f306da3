"""
AsarGRU4Rec
################################################

Reference:
    "AsarRec: Adaptive Sequential Augmentation for Robust Self-supervised Sequential Recommendation."

Reference:
    Yong Kiam Tan et al. "Improved Recurrent Neural Networks for Session-based Recommendations." in DLRS 2016.
"""

from __future__ import annotations

from typing import Any

from recbole.model.sequential_recommender.gru4rec import GRU4Rec
from torch import Tensor, nn

from recbole_asarrec.models.asarrec import AsarRec, OnEmbed


class AsarGRU4Rec(AsarRec, GRU4Rec):
    """RecBole's GRU4Rec, trained with learned views; inference is GRU4Rec's."""

    backbone = GRU4Rec
    causal = True
    padding_invariant = True
    inner_product = True

    emb_dropout: nn.Module
    gru_layers: nn.GRU
    dense: nn.Linear
    gather_indexes: Any

    def encode(
        self, items: Tensor, length: Tensor, *, every_position: bool = False, on_embed: OnEmbed | None = None
    ) -> Tensor:
        """GRU4Rec's forward pass, ``[B, n] → [B, d]`` or ``[B, n, d]``."""
        embedded = self.item_embedding(items)
        embedded = on_embed(embedded) if on_embed else embedded
        hidden = self.dense(self.gru_layers(self.emb_dropout(embedded))[0])  # [B, n, d]
        return hidden if every_position else self.gather_indexes(hidden, length - 1)
