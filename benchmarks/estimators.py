"""Three ways to get a gradient of InfoNCE for the augmenter, through a matrix that is hard.

Each is a function that takes a step's histories and returns a scalar whose gradient for the augmenter is
that of InfoNCE. Straight-through is what AsarRec trains with. The relaxed one is exact for another objective:
views mixed by the soft matrix, which training never sees. REINFORCE is unbiased for hard views, and noisy.

References:
    straight-through: Bengio et al. "Estimating or Propagating Gradients Through Stochastic Neurons." 2013.
    relaxed: Mena et al. "Learning Latent Permutations with Gumbel-Sinkhorn Networks." ICLR 2018.
    REINFORCE, leave-one-out: Kool et al. "Buy 4 REINFORCE Samples, Get a Baseline for Free!" 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_asarrec.augment import Augmenter, TransformMatrix, View, ViewPair
from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.models import AsarRec
from recbole_asarrec.models.contrastive_batch import ContrastiveBatch


def straight_through(model: AsarRec, histories: ContrastiveBatch) -> Tensor:
    """The views are hard; their gradient passes as if they had been mixed by the soft matrix."""
    return -model.contrast(histories, model.draw_views(histories)).infonce  # the model reverses its gradient


def relaxed(model: AsarRec, histories: ContrastiveBatch) -> Tensor:
    """The views are mixed by the soft matrix, at the positions that the hard one fills."""
    pair = model.draw_views(histories)
    assert pair.matrices is not None and pair.embedded is not None
    encoded = []
    for view, matrix in zip(pair.views, pair.matrices):
        mixed = mix(matrix.soft, pair.embedded, view)  # [R, m, d]
        encoded.append(model.encode(view.items, view.length, on_embed=lambda _, mixed=mixed: mixed))
    return infonce_of_each(*encoded, histories.users, model.settings.temperature).mean()


def mix(soft: Tensor, embedded: Tensor, view: View) -> Tensor:
    """``Sᵀ · E`` at a view's positions, ``[R, N, N], [R, N, d] → [R, m, d]``."""
    everywhere = soft.transpose(1, 2) @ embedded  # [R, N, d]
    index = view.column[:, :, None].expand(-1, -1, embedded.size(2))
    real = torch.arange(view.items.size(1), device=soft.device) < view.length[:, None]
    return everywhere.gather(1, index) * real[:, :, None]


def reinforce(model: AsarRec, histories: ContrastiveBatch, draws: int = 2) -> Tensor:
    """Log-probabilities of draws of the matrices, weighted by how much harder each is than the others."""
    rewards, scores = [], []
    for _ in range(draws):
        pair = model.draw_views(histories)
        with torch.no_grad():
            first, second = model.encode_views(ViewPair(pair.views))
            rewards.append(infonce_of_each(first, second, histories.users, model.settings.temperature))
        scores.append(model.augmenter.matrices.score.view(2, -1).sum(0))  # of both views, [R]
    reward, score = torch.stack(rewards), torch.stack(scores)  # [draws, R]
    advantage = (reward - reward.mean(0)) * draws / (draws - 1)  # over the mean of the other draws
    return (advantage * score).mean()


def infonce_of_each(first: Tensor, second: Tensor, users: Tensor, temperature: float) -> Tensor:
    """InfoNCE of each row where no user has two, ``[R, d], [R, d] → [R]``.

    Raises:
        ValueError: two rows are of one user.
    """
    if len(users.unique()) < len(users):
        raise ValueError("each row must be of another user")
    similarity = F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T / temperature
    return F.cross_entropy(similarity, torch.arange(len(users), device=users.device), reduction="none")


class ScoredAugmenter(Augmenter):
    """The augmenter with the log-probability of what it draws, for :func:`reinforce`.

    A matrix is a function of logits under Gumbel noise g, whose log-density has the gradient ``1 − exp(−g)``
    for the logits.

    Attributes:
        score: of the latest draw: its gradient is that of the log-probability, ``[2R]``.
    """

    score: Tensor

    def __init__(self, settings: AsarSettings, embedding_size: int) -> None:
        super().__init__(replace(settings, gumbel_scale=0.0), embedding_size)  # the noise is drawn here

    def _transform(self, logits: Tensor, valid: Tensor, length: Tensor) -> TransformMatrix:
        noise = -torch.rand_like(logits).clamp_min_(1e-30).log_().neg_().log_()
        entries = valid[:, :, None] & valid[:, None, :]
        self.score = ((1 - (-noise).exp()) * logits * entries).sum((1, 2))
        return super()._transform((logits + noise).detach(), valid, length)


class Estimator(NamedTuple):
    """How an augmenter learns.

    Attributes:
        loss: of a step's histories; its gradient is that of InfoNCE.
        matrices: the class of what draws the matrices.
    """

    loss: Callable[[AsarRec, ContrastiveBatch], Tensor]
    matrices: type[Augmenter] = Augmenter


ESTIMATORS: Mapping[str, Estimator] = {
    "straight-through": Estimator(straight_through),
    "relaxed": Estimator(relaxed),
    "REINFORCE": Estimator(reinforce, ScoredAugmenter),
}
