"""
AsarGRU4Rec
################################################

Reference:
    "AsarRec: Adaptive Sequential Augmentation for Robust Self-supervised Sequential Recommendation."

Reference:
    Yong Kiam Tan et al. "Improved Recurrent Neural Networks for Session-based Recommendations." in DLRS 2016.
"""

from recbole.model.sequential_recommender.gru4rec import GRU4Rec

from recbole_asarrec.models.asarrec import Asar


class AsarGRU4Rec(Asar, GRU4Rec):
    """RecBole's GRU4Rec, trained with learned views; inference is GRU4Rec's."""

    backbone = GRU4Rec
    causal = True
    trims = True
    scores_by_product = True
