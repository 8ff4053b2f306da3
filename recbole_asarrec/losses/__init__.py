"""The recommender's objectives, next item and InfoNCE, and the augmenter's, one a file."""

from recbole_asarrec.losses.diversity import diversity_loss
from recbole_asarrec.losses.infonce import info_nce
from recbole_asarrec.losses.sequence_ndcg import ndcg_floor, semantic_loss, sequence_ndcg

__all__ = ["diversity_loss", "info_nce", "ndcg_floor", "semantic_loss", "sequence_ndcg"]
