"""Operations chosen by a bandit: those whose contrast moves histories where recommendation would.

Each view of each user takes one operation at random, as a list of operations does. Which one is likely is
learned for users of like history length, from a uniform prior (as JOAO, You et al. ICML 2021, learns it for
graphs): the utility of a view is the agreement of :class:`~benchmarks.objectives.GradientAgreement`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.objectives import GradientAgreement
from recbole_asarrec.augment import ViewPair
from recbole_asarrec.augment.fixed_views import FixedViews, operations_of
from recbole_asarrec.augment.view_pair import Embed
from recbole_asarrec.models.contrastive_batch import ContrastiveBatch
from recbole_asarrec.models.training_step import Contrast

_LONGER = (4, 8, 16)  # histories of up to so many items are alike
_PRIOR = 0.2  # share of choices that stay uniform
_SHARPNESS = 2.0  # of the choice, in standard deviations of the operations' utilities
_MEMORY = 0.98  # what a mean utility keeps in a step


class BanditViews(FixedViews):
    """Views by one operation each, which a bandit draws.

    Attributes:
        utility: mean utility of each operation in each context, ``[contexts, operations]``.
        drawn: the operations of the latest two views, each ``[R]``.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        count = len(operations_of(self.settings.augmentation))
        self.register_buffer("utility", torch.zeros(len(_LONGER) + 1, count), persistent=False)
        self.drawn: list[Tensor] = []

    def probability(self) -> Tensor:
        """How likely each operation is in each context, ``[contexts, operations]``."""
        spread = self.utility.std(1, keepdim=True).clamp_min(1e-6)
        likely = (_SHARPNESS * (self.utility - self.utility.mean(1, keepdim=True)) / spread).softmax(1)
        return (1 - _PRIOR) * likely + _PRIOR / likely.size(1)

    def forward(self, history: Tensor, length: Tensor, target: Tensor, embed: Embed) -> ViewPair:
        """Draw the two views of ``history`` ``[R, n]`` with ``length`` ``[R]`` and next items ``[R]``."""
        self.drawn = []
        return super().forward(history, length, target, embed)

    def choose(self, count: int, length: Tensor) -> Tensor:
        """An operation for each of the histories of ``length`` ``[R]``."""
        drawn = torch.multinomial(self.probability()[context(length)], 1).squeeze(1)
        self.drawn.append(drawn)
        return drawn

    def learn(self, length: Tensor, operation: Tensor, utility: Tensor) -> None:
        """Take the utilities of views into the means; all ``[R]``."""
        index = context(length) * self.utility.size(1) + operation
        count = torch.zeros(self.utility.numel(), device=utility.device).index_add_(
            0, index, torch.ones_like(utility)
        )
        total = torch.zeros_like(count).index_add_(0, index, utility)
        mean = (total / count.clamp_min(1)).view_as(self.utility)
        known = (count > 0).view_as(self.utility)
        moved = _MEMORY * self.utility + (1 - _MEMORY) * mean
        self.utility.copy_(torch.where(known, moved, self.utility))


def context(length: Tensor) -> Tensor:
    """Which histories are alike, ``[R] → [R]``."""
    return torch.bucketize(length, torch.tensor(_LONGER, device=length.device))


class OperationBandit(GradientAgreement):
    """AsarSASRec whose views are made by fixed operations that a bandit draws."""

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        fixed = self.augmenter
        self.augmenter = BanditViews(self.settings, self.n_items, self.max_seq_length, fixed.neighbours)

    def contrast(self, histories: ContrastiveBatch, views: ViewPair) -> Contrast:
        """As ever; the bandit learns from it."""
        contrast = super().contrast(histories, views)
        with torch.no_grad(), self.frozen():
            history = self.encode(histories.items, histories.length)
            for view, operation in zip(views.views, self.augmenter.drawn):
                agreement = self.agreement(self._encode_view(view), history, histories)
                self.augmenter.learn(histories.length, operation, agreement)
        return contrast
