"""RecBole models with a learned augmenter, and the backbone that RecBole lacks."""

from recbole_asarrec.models.asarfmlprec import AsarFMLPRec
from recbole_asarrec.models.asargru4rec import AsarGRU4Rec
from recbole_asarrec.models.asarrec import AsarRec
from recbole_asarrec.models.asarsasrec import AsarSASRec
from recbole_asarrec.models.fmlprec import FMLPRec
from recbole_asarrec.models.wrap import asar

__all__ = ["AsarFMLPRec", "AsarGRU4Rec", "AsarRec", "AsarSASRec", "FMLPRec", "asar"]
