"""AsarRec's augmenter: a user's expanded sequence in, two transforms of it out (paper, section 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from recbole_asarrec.augment.index_map import cap_edits, edit_budget, never_empty
from recbole_asarrec.augment.sinkhorn import mutual_argmax, semi_sinkhorn
from recbole_asarrec.augment.transition import TransitionEncoder
from recbole_asarrec.config.settings import AsarSettings

_NULL_WEIGHT = 0.5  # of the null item, beside all other items together
_NULL_FACTOR = 1.9  # on the odds of staying, so that the rate of edits is the same with a null item
_PREFERENCE = 4.0  # of a candidate for the position of the item that it is similar to, a logit
_OVERFLOW = 1e4  # keeps a diverging encoder from turning the softmax into NaN


class TransformMatrix(NamedTuple):
    """One view's matrix, hard and soft.

    Attributes:
        source: the hard matrix as an index map (see :mod:`recbole_asarrec.augment.index_map`), ``[B, n]``.
        soft: S of Algorithm 1, ``[B, N, N]``, through which gradients pass.
    """

    source: Tensor
    soft: Tensor


class Augmenter(nn.Module):
    """Encode, project to a semi-doubly stochastic matrix, keep within the edit budget.

    Args:
        settings: see ``properties/model/Asar.yaml``.
        embedding_size: d of the recommender.
    """

    def __init__(self, settings: AsarSettings, embedding_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = TransitionEncoder(embedding_size, settings.augmenter_hidden_size)

    def forward(
        self, expanded: Tensor, valid: Tensor, length: Tensor, anchors: Tensor | None = None
    ) -> tuple[TransformMatrix, TransformMatrix]:
        """Draw the two transforms of a batch of histories.

        Args:
            expanded: detached embeddings of ``s*``: n of the history, k candidates and, with ``null_item``,
                the null item, ``[B, N, d]``.
            valid: which of these exist, ``[B, N]``.
            length: how many history items, ``[B]``.
            anchors: the positions that the candidates prefer, if they prefer any, ``[B, k]``.
        """
        limit = self.settings.logit_limit
        logits = self.encoder(expanded)  # [2, B, N, N]
        logits = limit * torch.tanh(logits / limit) if limit else logits.clamp(-_OVERFLOW, _OVERFLOW)
        if anchors is not None:
            logits = logits + self._preference(anchors, logits.size(-1))
        both = self._transform(logits.flatten(0, 1), valid.repeat(2, 1), length.repeat(2))
        first, second = (TransformMatrix(*parts) for parts in zip(*(part.chunk(2) for part in both)))
        return first, second

    def _transform(self, logits: Tensor, valid: Tensor, length: Tensor) -> TransformMatrix:
        options = self.settings
        budget = edit_budget(length, options.perturbation_budget, options.min_edits, up=True)
        probability = self._probability(logits, valid, budget / length)
        slack, one_pass = options.null_item, options.assignment == "one_pass"
        soft = semi_sinkhorn(probability, valid, options.sinkhorn_rounds, options.sinkhorn_threshold, slack)
        hard = mutual_argmax(soft.detach(), one_pass, slack)
        real = valid.size(1) - slack  # history and candidates
        width = real - (0 if options.keep_columns == "all" else options.num_candidates)
        source = hard[:, :width].masked_fill(~valid[:, :width], -1)
        if options.edit_cap:
            keep_score = soft.detach().diagonal(dim1=1, dim2=2)[:, :width]
            source = cap_edits(source, keep_score, budget, valid[:, :width])
        return TransformMatrix(never_empty(source, probability.detach()[:, :real, :real]), soft)

    def _preference(self, anchors: Tensor, size: int) -> Tensor:
        """What is added to the logits for the positions that candidates prefer, ``[B, k] → [B, N, N]``."""
        count = anchors.size(1)
        first = size - self.settings.null_item - count  # the candidates are rows n … n + k − 1
        row = torch.arange(len(anchors), device=anchors.device)[:, None]
        candidate = first + torch.arange(count, device=anchors.device)
        added = torch.zeros(len(anchors), size, size, device=anchors.device)
        added[row, candidate, anchors] = _PREFERENCE
        return added

    def _probability(self, logits: Tensor, valid: Tensor, edit_ratio: Tensor) -> Tensor:
        """A of the paper, 0 where invalid, ``[B, N, N]``; ``edit_ratio`` is the share allowed, ``[B]``."""
        null = self.settings.null_item
        others = (valid.sum(1) - (2 if null else 1)).clamp_min(1).to(logits.dtype)  # [B]
        bias = self._identity_bias(others, edit_ratio.to(logits.dtype))  # [B]
        if self.settings.gumbel_scale:
            # −log(−log u) is a standard Gumbel; drawing u and two logarithms cost less than exponential_
            negative_gumbel = torch.rand_like(logits).clamp_min_(1e-30).log_().neg_().log_()
            scored = logits - self.settings.gumbel_scale * negative_gumbel
        else:
            scored = logits.clone()
        scored.diagonal(dim1=1, dim2=2).add_(bias[:, None])
        if null:
            weight = (_NULL_WEIGHT * others).log()[:, None]  # [B, 1]
            scored[:, :, -1].add_(weight)
        everything = bool(valid.all())
        if not everything:
            scored = scored.masked_fill(~valid[:, None, :], torch.finfo(scored.dtype).min)
        probability = scored.softmax(-1)
        if null:
            # the null item need not choose among positions, so its row is no softmax: it stands in each
            # column as all the others together would, times its weight
            mass = torch.logaddexp(bias, ((1 + _NULL_WEIGHT) * others).log())[:, None]
            empty = torch.sigmoid(scored[:, -1, :-1] + weight - mass)  # [B, N−1]
            empty = torch.nn.functional.pad(empty, (0, 1))  # nothing goes nowhere
            probability = torch.cat([probability[:, :-1], empty[:, None]], dim=1)
        if everything:
            return probability
        return probability.masked_fill(~(valid[:, :, None] & valid[:, None, :]), 0.0)

    def _identity_bias(self, others: Tensor, edit_ratio: Tensor) -> Tensor:
        """The diagonal bias per user, ``[B]``, where an item could go to so many ``others`` ``[B]``.

        ``calibrated`` starts at the allowed share of edits, whatever the length. Under Gumbel noise on equal
        logits an item prefers another position with odds ``others / e^bias``; the match must be mutual, and
        the rate after Semi-Sinkhorn and rounding was measured to have these odds to the power 3/2. With a
        null item there is more to prefer: the factor was measured too.
        """
        if self.settings.identity_bias != "calibrated":
            return torch.full_like(edit_ratio, float(self.settings.identity_bias))
        factor = _NULL_FACTOR if self.settings.null_item else 1.0
        share = edit_ratio.clamp(1e-3, 0.5)
        return (factor * others).log() + 2 / 3 * ((1 - share) / share).log()
