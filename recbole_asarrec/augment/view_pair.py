"""What every augmentation hands to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from recbole_asarrec.augment.augmenter import TransformMatrix
from recbole_asarrec.augment.view import View

# Detached embeddings of ids [R, N] as the augmenter should see them, and as they are, each [R, N, d]; the
# second argument is how many of the N are history.
Embed = Callable[[Tensor, int], tuple[Tensor, Tensor]]


class ViewPair(NamedTuple):
    """Two views, and how they came about.

    Attributes:
        views: the two views of each of R histories.
        matrices: the matrices that made them, if matrices did.
        embedded: detached embeddings of ``s*``, ``[R, n+k, d]``, where a matrix takes a gradient.
        candidates: the new items that a matrix could choose from, 0 for none, ``[R, k]``.
    """

    views: tuple[View, View]
    matrices: tuple[TransformMatrix, TransformMatrix] | None = None
    embedded: Tensor | None = None
    candidates: Tensor | None = None

    @property
    def learned(self) -> bool:
        """Whether the matrices take a gradient."""
        return self.embedded is not None
