"""
AsarSASRec
################################################

Reference:
    "AsarRec: Adaptive Sequential Augmentation for Robust Self-supervised Sequential Recommendation."

Reference:
    Wang-Cheng Kang et al. "Self-Attentive Sequential Recommendation." in ICDM 2018.
"""

from recbole.model.sequential_recommender.sasrec import SASRec

from recbole_asarrec.models.asar import Asar


class AsarSASRec(Asar, SASRec):
    """RecBole's SASRec, trained with learned views; inference is SASRec's."""

    backbone = SASRec
    causal = True
    trims = True
