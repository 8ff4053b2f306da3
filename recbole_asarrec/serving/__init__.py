"""Exported models, opened with NumPy and ONNX Runtime alone::

    from recbole_asarrec.serving import Recommender

    Recommender("exported").recommend([["242", "302", "377"]], k=3)

Nothing in here imports torch or RecBole. Where RecBole is installed, Python still loads it with the package
``recbole_asarrec``; where it is not, this subpackage works by itself.
"""

from recbole_asarrec.errors import ExportError, UserError
from recbole_asarrec.serving.recommender import Recommended, Recommender

__all__ = ["ExportError", "Recommended", "Recommender", "UserError"]
