"""From atomic files to rows, and from rows to batches."""

from recbole_asarrec.data.columns import Columns
from recbole_asarrec.data.cooccurrence import cooccurrence_vectors, count_cooccurrences
from recbole_asarrec.data.dataset import CONTRASTIVE_ROW, AsarDataset
from recbole_asarrec.data.loaders import TARGETS, EvalLoader, PrefixLoader, SequenceLoader
from recbole_asarrec.data.negatives import UnseenNegatives
from recbole_asarrec.data.similarity import cached_neighbours, item_neighbours

__all__ = [
    "CONTRASTIVE_ROW",
    "TARGETS",
    "AsarDataset",
    "Columns",
    "EvalLoader",
    "PrefixLoader",
    "SequenceLoader",
    "UnseenNegatives",
    "cached_neighbours",
    "cooccurrence_vectors",
    "count_cooccurrences",
    "item_neighbours",
]
