"""Softmax over the catalogue for the item that comes next, and what AsarRec changes of it.

Items that a user already had are wrong answers that an inner product ranks first, next to what they were
encoded into: with ``seen_weight`` they count that often among the wrong answers. Some targets cannot be
foretold, noise above all: with ``robustness`` they count less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.errors import ConfigError
from recbole_asarrec.kernels.fused import catalogue_cross_entropy, robust


class NextItemLoss(NamedTuple):
    """Cross-entropy at a robustness of 0 and a seen weight of 1.

    Attributes:
        robustness: q of :func:`recbole_asarrec.kernels.fused.robust`.
        seen_weight: how often an item of the history counts among the wrong answers.
        fused: never keep the scores.
    """

    robustness: float = 0.0
    seen_weight: float = 1.0
    fused: bool = True

    @property
    def plain(self) -> bool:
        """Whether a backbone's own cross-entropy is the same to the bit."""
        return not self.fused and self.robustness == 0 and self.seen_weight == 1

    def __call__(
        self, encoded: Tensor, items: Tensor, targets: Tensor, history: Callable[[], Tensor]
    ) -> Tensor:
        """The mean over P predictions.

        Args:
            encoded: encoded histories, ``[P, d]``.
            items: embeddings of the catalogue, ``[V, d]``.
            targets: the items that came next, ``[P]``.
            history: gives what was encoded, 0 for none, ``[P, n]``.
        """
        seen = history() if self.seen_weight != 1 else None
        if self.fused:
            return catalogue_cross_entropy(encoded, items, targets, seen, self.seen_weight, self.robustness)
        scores = encoded @ items.T  # [P, V]
        if seen is not None:
            scores = heavier(scores, targets, seen, self.seen_weight)
        return robust(F.cross_entropy(scores, targets, reduction="none"), self.robustness).mean()


def refuse_without_softmax(settings: AsarSettings, what: str) -> None:
    """Say what is asked of a loss that is no softmax over inner products.

    Raises:
        ConfigError: naming the key and the remedy.
    """
    for key, plain in {"robustness": 0, "seen_weight": 1}.items():
        if getattr(settings, key) != plain:
            raise ConfigError(f"{key} needs a softmax over inner products, which {what} lacks; set {plain}.")


def every_prefix(history: Tensor) -> Tensor:
    """What was had at each place, that place included: ``[B, n] → [B, n, n]``, 0 for nothing."""
    return history[:, None, :].expand(-1, history.size(1), -1).tril()


def heavier(scores: Tensor, targets: Tensor, seen: Tensor, weight: float) -> Tensor:
    """Scores whose softmax counts the items of ``seen`` ``weight`` times, the target always once.

    Args:
        scores: ``[P, V]``.
        targets: ``[P]``.
        seen: 0 for none, ``[P, h]``.
        weight: at least 1.
    """
    lift = torch.zeros_like(scores).scatter_(1, seen, math.log(weight))
    lift[:, 0] = 0.0
    return scores + lift.scatter_(1, targets[:, None], 0.0)
