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

from recbole.model.sequential_recommender.sasrec import SASRec
from torch import Tensor

from recbole_asarrec.kernels.last_position import read_at, use_last_place
from recbole_asarrec.models.asarrec import Asar


class AsarSASRec(Asar, SASRec):
    """RecBole's SASRec, trained with learned views; inference is SASRec's."""

    backbone = SASRec
    causal = True
    trims = True
    scores_by_product = True

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        if self.settings.fused:
            use_last_place(self.trm_encoder)

    def forward(self, item_seq: Tensor, item_seq_len: Tensor) -> Tensor:
        """SASRec's, ``[B, n] → [B, d]``; the last layer is told which place is read."""
        read_at(self.trm_encoder, None if self._every_place else item_seq_len - 1)
        encoded: Tensor = super().forward(item_seq, item_seq_len)
        return encoded
