"""From atomic files to rows."""

from recbole_asarrec.data.dataset import CONTRASTIVE_ROW, AsarDataset

__all__ = ["CONTRASTIVE_ROW", "AsarDataset"]
