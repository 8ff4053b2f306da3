"""AsarRec's augmenter: a user's expanded sequence in, two transforms of it out (paper, section 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from recbole_asarrec.augment.index_map import cap_edits, edit_budget, never_empty
from recbole_asarrec.augment.sinkhorn import mutual_argmax, semi_sinkhorn
from recbole_asarrec.augment.transition import TransitionEncoder
from recbole_asarrec.config.settings import AsarSettings

_LOGIT_LIMIT = 1e4  # keeps a diverging encoder from turning the softmax into NaN


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
        self, expanded: Tensor, valid: Tensor, length: Tensor
    ) -> tuple[TransformMatrix, TransformMatrix]:
        """Draw the two transforms of a batch of histories.

        Args:
            expanded: detached embeddings of ``s*``: n of the history, then k candidates, ``[B, n+k, d]``.
            valid: which of these exist, ``[B, n+k]``.
            length: how many history items, ``[B]``.
        """
        logits = self.encoder(expanded).clamp(-_LOGIT_LIMIT, _LOGIT_LIMIT)  # [2, B, N, N]
        both = self._transform(logits.flatten(0, 1), valid.repeat(2, 1), length.repeat(2))
        first, second = (TransformMatrix(*parts) for parts in zip(*(part.chunk(2) for part in both)))
        return first, second

    def _transform(self, logits: Tensor, valid: Tensor, length: Tensor) -> TransformMatrix:
        options = self.settings
        budget = edit_budget(length, options.perturbation_budget, options.min_edits, up=True)
        probability = self._probability(logits, valid, budget / length)
        soft = semi_sinkhorn(probability, valid, options.sinkhorn_rounds, options.sinkhorn_threshold)
        hard = mutual_argmax(soft.detach(), one_pass=options.assignment == "one_pass")
        width = valid.size(1) - (0 if options.keep_columns == "all" else options.num_candidates)
        source = hard[:, :width].masked_fill(~valid[:, :width], -1)
        if options.edit_cap:
            keep_score = soft.detach().diagonal(dim1=1, dim2=2)[:, :width]
            source = cap_edits(source, keep_score, budget, valid[:, :width])
        return TransformMatrix(never_empty(source, probability.detach()), soft)

    def _probability(self, logits: Tensor, valid: Tensor, edits: Tensor) -> Tensor:
        """A of the paper, 0 where invalid, ``[B, N, N]``; ``edits`` is the share allowed, ``[B]``."""
        bias = self._identity_bias(valid, edits).to(logits.dtype)
        scored = logits + torch.diag_embed(bias[:, None].expand(-1, valid.size(1)))
        if self.settings.gumbel_scale:
            # −log(−log u) is a standard Gumbel; drawing u and two logarithms cost less than exponential_
            gumbel = torch.rand_like(logits).clamp_min_(1e-30).log_().neg_().log_()
            scored = scored - self.settings.gumbel_scale * gumbel
        lowest = torch.finfo(scored.dtype).min
        probability = scored.masked_fill(~valid[:, None, :], lowest).softmax(-1)
        return probability.masked_fill(~(valid[:, :, None] & valid[:, None, :]), 0.0)

    def _identity_bias(self, valid: Tensor, edits: Tensor) -> Tensor:
        """The diagonal bias per user, ``[B]``.

        ``calibrated`` starts at the allowed share of edits, whatever the length. Under Gumbel noise on equal
        logits an item prefers another position with odds ``(N−1) / e^bias``; the position must want it too,
        and the rate after Semi-Sinkhorn and rounding was measured to have these odds to the power 3/2.
        """
        if self.settings.identity_bias != "calibrated":
            return torch.full_like(edits, float(self.settings.identity_bias))
        others = (valid.sum(1) - 1).clamp_min(1)
        share = edits.clamp(1e-3, 0.5)
        return others.log() + 2 / 3 * ((1 - share) / share).log()
