"""RecBole models with a learned augmenter."""

from recbole_asarrec.models.asar import Asar
from recbole_asarrec.models.asarsasrec import AsarSASRec

__all__ = ["Asar", "AsarSASRec"]
