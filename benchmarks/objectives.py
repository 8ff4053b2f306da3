"""What the augmenter could learn instead of making InfoNCE large: objectives to compare, as models.

Each judges views by an encoder without dropout whose weights it leaves alone, so that the straight-through
gradient is that of the views. The diversity and semantic terms stay; InfoNCE's reversed gradient is switched
off by ``gradient_reversal: 0``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_asarrec import AsarSASRec
from recbole_asarrec.augment import View, ViewPair, carry_gradient
from recbole_asarrec.losses import info_nce
from recbole_asarrec.models.contrastive_batch import ContrastiveBatch
from recbole_asarrec.models.training_step import Contrast


class Judged(AsarSASRec):
    """AsarSASRec whose augmenter has one more loss, :meth:`judge`."""

    @abstractmethod
    def judge(self, view: Tensor, history: Tensor, histories: ContrastiveBatch) -> Tensor:
        """What the augmenter minimizes, a scalar.

        Args:
            view: one encoded view of each history, ``[R, d]``.
            history: the histories as they are, encoded, ``[R, d]``.
            histories: what was encoded.
        """

    def draw_views(self, histories: ContrastiveBatch) -> ViewPair:
        """As ever; the histories are kept for :meth:`augmenter_loss`."""
        self.drawn_of = histories
        return super().draw_views(histories)

    def augmenter_loss(self, contrast: Contrast) -> Tensor:
        """With the views' judgement."""
        pair, histories = contrast.views, self.drawn_of
        assert pair.matrices is not None and pair.embedded is not None
        total = super().augmenter_loss(contrast)
        with self.frozen():
            history = self.encode(histories.items, histories.length)
            for view, matrix in zip(pair.views, pair.matrices):
                encoded = self.encode(
                    view.items, view.length, on_embed=_straight_through(matrix.soft, pair.embedded, view)
                )
                total = total + self.judge(encoded, history, histories) / 2
        return total

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside, there is no dropout and the backbone gets no gradient."""
        training = self.training
        backbone = [one for name, one in self.named_parameters() if not name.startswith("augmenter.")]
        learned = [one for one in backbone if one.requires_grad]
        for one in learned:
            one.requires_grad_(False)
        self.eval()
        try:
            yield
        finally:
            self.train(training)
            for one in learned:
                one.requires_grad_(True)

    def target_and_other(self, histories: ContrastiveBatch) -> tuple[Tensor, Tensor]:
        """Embeddings of the items that come next and of unseen ones, both ``[R, d]``."""
        unseen = self.negatives(histories.users, 1)[:, 0]
        return self.item_embedding(histories.target), self.item_embedding(unseen)


def _straight_through(soft: Tensor, expanded: Tensor, view: View):  # type: ignore[no-untyped-def]
    return lambda embedded: carry_gradient(embedded, soft, expanded, view, 1.0)


class LabelPreserving(Judged):
    """A view must still predict the next item (as AutoGCL and LP-A3 ask of theirs)."""

    def judge(self, view: Tensor, history: Tensor, histories: ContrastiveBatch) -> Tensor:
        """Binary cross-entropy of the next item."""
        target, other = self.target_and_other(histories)
        return (F.softplus(-(view * target).sum(-1)) + F.softplus((view * other).sum(-1))).mean()


class GradientAgreement(Judged):
    """Contrast with a view must move a history where recommendation would (one step ahead, first order)."""

    def judge(self, view: Tensor, history: Tensor, histories: ContrastiveBatch) -> Tensor:
        """Minus the agreement."""
        return -self.agreement(view, history, histories).mean()

    def agreement(self, view: Tensor, history: Tensor, histories: ContrastiveBatch) -> Tensor:
        """The cosine of the two gradients for each encoded history, ``[R]``."""
        target, other = self.target_and_other(histories)
        wanted = (
            torch.sigmoid((history * other).sum(-1, keepdim=True)) * other
            - torch.sigmoid(-(history * target).sum(-1, keepdim=True)) * target
        )  # of binary cross-entropy, [R, d]
        unit, positive = F.normalize(history, dim=-1), F.normalize(view, dim=-1)
        share = (unit @ positive.T / self.settings.temperature).softmax(-1)  # [R, R]
        moved = share @ positive - positive  # of InfoNCE, up to a factor
        moved = moved - (moved * unit).sum(-1, keepdim=True) * unit
        return F.cosine_similarity(moved, wanted, dim=-1)


class HardAgainstHistory(Judged):
    """A view must be hard to tell from others by the unaugmented history (as AD-GCL asks)."""

    def judge(self, view: Tensor, history: Tensor, histories: ContrastiveBatch) -> Tensor:
        """Minus InfoNCE of view and history."""
        return -info_nce(view, history, histories.users, self.settings.temperature)
