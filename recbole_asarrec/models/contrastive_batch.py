"""What of a batch the contrastive term is about."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Compared(NamedTuple):
    """Histories of which views are made.

    Attributes:
        history: item ids, 0 for padding, ``[R, n]``.
        length: how many there are, ``[R]``.
        target: the items that come next, ``[R]``.
        users: whose they are, ``[R]``.
        everywhere: compare views at every place where both tell the same, not only as wholes.
    """

    history: Tensor
    length: Tensor
    target: Tensor
    users: Tensor
    everywhere: bool
