"""From a checkpoint and histories to recommendations."""

from recbole_asarrec.inference.recommender import Recommended, Recommender, recommend

__all__ = ["Recommended", "Recommender", "recommend"]
