"""From a user's history to two views of it: candidates → transition → Semi-Sinkhorn → index map → view."""

from recbole_asarrec.augment.augmenter import Augmenter, TransformMatrix
from recbole_asarrec.augment.candidates import sample_unseen
from recbole_asarrec.augment.fixed_views import COMPOSED, FixedViews, operations_of
from recbole_asarrec.augment.index_map import cap_edits, edit_budget, never_empty, to_matrix
from recbole_asarrec.augment.masked_prediction import MaskedPrediction
from recbole_asarrec.augment.matrix_views import MatrixViews
from recbole_asarrec.augment.operations import OPERATIONS, IndexMap
from recbole_asarrec.augment.registry import make_augmenter, needs_neighbours
from recbole_asarrec.augment.sinkhorn import mutual_argmax, semi_sinkhorn
from recbole_asarrec.augment.transition import TransitionEncoder
from recbole_asarrec.augment.view import View, aligned_positions, build_view, carry_gradient
from recbole_asarrec.augment.view_pair import ViewPair

__all__ = [
    "COMPOSED",
    "OPERATIONS",
    "Augmenter",
    "FixedViews",
    "IndexMap",
    "MaskedPrediction",
    "MatrixViews",
    "TransformMatrix",
    "TransitionEncoder",
    "View",
    "ViewPair",
    "aligned_positions",
    "build_view",
    "cap_edits",
    "carry_gradient",
    "edit_budget",
    "make_augmenter",
    "mutual_argmax",
    "needs_neighbours",
    "never_empty",
    "operations_of",
    "sample_unseen",
    "semi_sinkhorn",
    "to_matrix",
]
