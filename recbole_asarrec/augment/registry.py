"""Which module makes the views of which augmentation. A new one is a row here."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from recbole_asarrec.augment.fixed_views import FixedViews, operations_of
from recbole_asarrec.augment.masked_prediction import MaskedPrediction
from recbole_asarrec.augment.matrix_views import MatrixViews
from recbole_asarrec.config.settings import AsarSettings

MATRICES = ("asar", "random_matrix")
_MAKERS: dict[str, Callable[[AsarSettings, int, int, int, Tensor | None], nn.Module]] = {
    "s3rec": lambda settings, size, n_items, longest, neighbours: MaskedPrediction(settings, size, n_items),
    **dict.fromkeys(MATRICES, MatrixViews),
}


def needs_neighbours(settings: AsarSettings) -> bool:
    """Whether the augmentation chooses new items by item-based collaborative filtering."""
    names = operations_of(settings.augmentation)
    informed = any(name.startswith("coserec") for name in names)
    offered = names[0] in MATRICES and settings.candidates == "similar" and settings.num_candidates > 0
    return (informed or offered) and settings.similarity == "item_cf"


def make_augmenter(
    settings: AsarSettings, size: int, n_items: int, longest: int, neighbours: Tensor | None = None
) -> nn.Module:
    """The module that makes views of histories; fixed operations unless the table says otherwise.

    Args:
        settings: ``augmentation`` and its keys.
        size: d of the recommender.
        n_items: size of the catalogue, padding included.
        longest: L, the longest view.
        neighbours: similar items of each item, best first, ``[n_items, top]``, for :func:`needs_neighbours`.
    """
    name = settings.augmentation
    if isinstance(name, str) and name in _MAKERS:
        return _MAKERS[name](settings, size, n_items, longest, neighbours)
    return FixedViews(settings, n_items, longest, neighbours)
