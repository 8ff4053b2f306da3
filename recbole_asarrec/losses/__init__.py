"""The recommender's losses, next item and InfoNCE, and the augmenter's, one a file."""

from recbole_asarrec.losses.diversity import diversity_loss
from recbole_asarrec.losses.infonce import info_nce
from recbole_asarrec.losses.next_item import NextItemLoss, every_prefix
from recbole_asarrec.losses.sequence_ndcg import (
    SequenceQuality,
    ndcg_floor,
    semantic_loss,
    sequence_ndcg,
    sequence_quality,
)

__all__ = [
    "NextItemLoss",
    "SequenceQuality",
    "diversity_loss",
    "every_prefix",
    "info_nce",
    "ndcg_floor",
    "semantic_loss",
    "sequence_ndcg",
    "sequence_quality",
]
