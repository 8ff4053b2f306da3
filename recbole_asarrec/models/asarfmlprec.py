"""
AsarFMLPRec
################################################

Reference:
    "AsarRec: Adaptive Sequential Augmentation for Robust Self-supervised Sequential Recommendation."
"""

from __future__ import annotations

from torch import Tensor

from recbole_asarrec.models.asarrec import AsarRec, OnEmbed
from recbole_asarrec.models.fmlprec import FMLPRec


class AsarFMLPRec(AsarRec, FMLPRec):  # type: ignore[misc]  # the loss may have parts
    """FMLPRec, trained with learned views; inference is FMLPRec's.

    Its filter spans and mixes all L positions, so rows keep L and cannot train all positions at once.
    """

    backbone = FMLPRec
    inner_product = True

    def encode(
        self, items: Tensor, length: Tensor, *, every_position: bool = False, on_embed: OnEmbed | None = None
    ) -> Tensor:
        """FMLPRec's forward pass, ``[B, L] → [B, d]``."""
        embedded = self.item_embedding(items)
        return self.filter_embedded(on_embed(embedded) if on_embed else embedded, length)

    def backbone_positions(self, length: Tensor, n: int) -> Tensor:
        """Its histories end at the last of L positions."""
        first = self.max_seq_length - length[:, None]
        return (super().backbone_positions(length, n) + first).clamp_max(self.max_seq_length - 1)
