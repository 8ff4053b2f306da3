"""The next-item loss: softmax over the catalogue, with two optional changes, or BPR or BCE.

Items of the user's history are negatives that an inner product ranks high, since they were encoded:
``history_penalty`` weighs them more. Some targets cannot be predicted, noise above all: ``gce_q`` weighs them
less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from recbole.model.loss import BPRLoss
from torch import Tensor, nn

from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.errors import ConfigError
from recbole_asarrec.kernels.fused import catalogue_cross_entropy, generalized_cross_entropy


class NextItemLoss(NamedTuple):
    """Softmax cross-entropy over the catalogue, or BPR or BCE with sampled negatives.

    Attributes:
        loss_type: ``CE``, ``BPR`` or ``BCE``.
        inner_product: whether items are scored by an inner product with their embedding.
        gce_q: q of the generalized cross-entropy.
        history_penalty: weight of the history's items among the negatives of the softmax.
        fused: compute the loss without materializing the ``[P, V]`` scores.
    """

    loss_type: str = "CE"
    inner_product: bool = True
    gce_q: float = 0.0
    history_penalty: float = 1.0
    fused: bool = True
    num_negatives: int = 1

    @classmethod
    def make(
        cls, settings: AsarSettings, loss_type: str, inner_product: bool, backbone: type
    ) -> NextItemLoss:
        """The loss of a backbone under ``settings``.

        Raises:
            ConfigError: a key needs a softmax over inner products, which this backbone or loss lacks.
        """
        q, penalty = float(settings.gce_q), float(settings.history_penalty)
        if loss_type == "BCE" and not inner_product:
            raise ConfigError(
                f"loss_type BCE scores items by inner products, which {backbone.__name__} does not; "
                "use CE or BPR."
            )
        if not inner_product or loss_type != "CE":
            for key, value, neutral in (("gce_q", q, 0), ("history_penalty", penalty, 1)):
                if value != neutral:
                    raise ConfigError(
                        f"{key} needs a softmax over inner products, which {backbone.__name__} with "
                        f"loss_type {loss_type} lacks; set {neutral}."
                    )
        return cls(loss_type, inner_product, q, penalty, settings.fused, settings.num_negatives)

    @property
    def replaces_backbone(self) -> bool:
        """Whether rows use this loss too, instead of the backbone's own, which is not equivalent."""
        plain = not self.fused and self.gce_q == 0 and self.history_penalty == 1
        return self.loss_type == "BCE" or (self.inner_product and self.loss_type == "CE" and not plain)

    def __call__(
        self,
        encoded: Tensor,
        embedding: nn.Embedding,
        targets: Tensor,
        history: Callable[[], Tensor],
        negatives: Callable[[int], Tensor],
    ) -> Tensor:
        """The mean over P predictions.

        Args:
            encoded: encoded histories, ``[P, d]``.
            embedding: of the catalogue, ``[V, d]``.
            targets: the items that came next, ``[P]``.
            history: gives what was encoded, 0 for none, ``[P, n]``.
            negatives: draws so many unseen items for each, ``[P, k]``.
        """
        if self.loss_type == "BCE":
            return bce_loss(encoded, embedding, targets, negatives(self.num_negatives))
        if self.loss_type == "BPR":
            return bpr_loss(encoded, embedding, targets)
        seen = history() if self.history_penalty != 1 else None
        items = embedding.weight
        if self.fused:
            return catalogue_cross_entropy(encoded, items, targets, seen, self.history_penalty, self.gce_q)
        scores = encoded @ items.T  # [P, V]
        if seen is not None:
            scores = reweight_history(scores, targets, seen, self.history_penalty)
        return generalized_cross_entropy(
            F.cross_entropy(scores, targets, reduction="none"), self.gce_q
        ).mean()


def bce_loss(encoded: Tensor, embedding: nn.Embedding, targets: Tensor, negatives: Tensor) -> Tensor:
    """Binary cross-entropy of each target and of its negatives' mean, as SASRec's authors train.

    Args:
        encoded: ``[P, d]``.
        embedding: of the catalogue, ``[V, d]``.
        targets: ``[P]``.
        negatives: ``[P, k]``.
    """
    positive = (encoded * embedding(targets)).sum(-1)  # [P]
    negative = (embedding(negatives) @ encoded.unsqueeze(-1)).squeeze(-1)  # [P, k]
    return (F.softplus(-positive) + F.softplus(negative).mean(-1)).mean()


def bpr_loss(encoded: Tensor, embedding: nn.Embedding, targets: Tensor) -> Tensor:
    """RecBole's BPR against one uniform item other than the target, as its repeatable sampler draws it.

    Args:
        encoded: ``[P, d]``.
        embedding: of the catalogue, ``[V, d]``.
        targets: ``[P]``.
    """
    others = torch.randint(1, max(embedding.num_embeddings - 1, 2), targets.shape, device=targets.device)
    others = others + (others >= targets)
    positive, negative = ((encoded * embedding(items)).sum(-1) for items in (targets, others))
    loss: Tensor = BPRLoss()(positive, negative)
    return loss


def every_prefix(history: Tensor) -> Tensor:
    """The history up to each position, that one included: ``[B, n] → [B, n, n]``, 0 for none."""
    return history[:, None, :].expand(-1, history.size(1), -1).tril()


def reweight_history(scores: Tensor, targets: Tensor, seen: Tensor, weight: float) -> Tensor:
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
