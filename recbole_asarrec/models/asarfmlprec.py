"""
AsarFMLPRec
################################################

Reference:
    "AsarRec: Adaptive Sequential Augmentation for Robust Self-supervised Sequential Recommendation."
"""

from torch import Tensor

from recbole_asarrec.models.asarrec import Asar
from recbole_asarrec.models.fmlprec import FMLPRec


class AsarFMLPRec(Asar, FMLPRec):  # type: ignore[misc]  # the loss may have parts
    """FMLPRec, trained with learned views; inference is FMLPRec's.

    Its filter spans all L places and mixes them, so rows keep L and all positions cannot be trained at once.
    """

    backbone = FMLPRec
    scores_by_product = True

    def places(self, length: Tensor, n: int) -> Tensor:
        """Its histories end at the last of L places."""
        return (super().places(length, n) + self.max_seq_length - length[:, None]).clamp_max(
            self.max_seq_length - 1
        )
