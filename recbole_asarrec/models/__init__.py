"""RecBole models with a learned augmenter, and the backbone that RecBole lacks."""

from recbole_asarrec.models.asarfmlprec import AsarFMLPRec
from recbole_asarrec.models.asargru4rec import AsarGRU4Rec
from recbole_asarrec.models.asarrec import Asar
from recbole_asarrec.models.asarsasrec import AsarSASRec
from recbole_asarrec.models.fmlprec import FMLPRec
from recbole_asarrec.models.wrap import asar

__all__ = ["Asar", "AsarFMLPRec", "AsarGRU4Rec", "AsarSASRec", "FMLPRec", "asar"]
