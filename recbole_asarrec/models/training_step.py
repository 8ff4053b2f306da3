"""What one training step computed: the losses for the optimizer, the rest for the monitor."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from recbole_asarrec.augment import ViewPair
from recbole_asarrec.losses import SequenceQuality
from recbole_asarrec.recipe.denoise import Kept


class Contrast(NamedTuple):
    """Two views of R histories and what InfoNCE makes of them.

    Attributes:
        views: the views and, where they were made by matrices, the matrices.
        length: n of each history, ``[R]``.
        infonce: unweighted, a scalar.
        pairs: how many positive pairs it has.
        quality: the views' sequence-aware NDCG, where they were made by matrices.
    """

    views: ViewPair
    length: Tensor
    infonce: Tensor
    pairs: int
    quality: SequenceQuality | None


class TrainingStep(NamedTuple):
    """One batch.

    Attributes:
        losses: weighted, in the order of ``loss_names``; a term that this batch lacks is a constant zero.
        kept: what denoising kept, if it ran.
        contrast: the contrastive part, if views were made.
    """

    losses: tuple[Tensor, ...]
    kept: Kept | None = None
    contrast: Contrast | None = None
