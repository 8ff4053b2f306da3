"""Matrices whose candidates are similar to an item of the history, as CoSeRec's new items are.

AsarRec's candidates are random items, so what it inserts or substitutes is noise. Here each candidate is a
neighbour of a random item of the history and starts with a preference for that item's position.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from recbole_asarrec import AsarSASRec
from recbole_asarrec.augment import Augmenter, MatrixViews, TransformMatrix, sample_unseen
from recbole_asarrec.data import cached_neighbours

_PREFERENCE = 4.0  # added to the logit of a candidate for its neighbour's position


class _Anchored(Augmenter):
    """An augmenter with a preference ``[R, N, N]`` that is added to the logits of both views."""

    preference: Tensor

    def _transform(self, logits: Tensor, valid: Tensor, length: Tensor) -> TransformMatrix:
        return super()._transform(logits + self.preference.repeat(2, 1, 1), valid, length)


class SimilarCandidateViews(MatrixViews):
    """Views by matrices, of candidates that are similar to items of the history.

    Args:
        neighbours: similar items of each item, best first, 0 for none, ``[n_items, top]``.
        more: the arguments of MatrixViews.
    """

    neighbours: Tensor

    def __init__(self, neighbours: Tensor, *more: Any) -> None:
        super().__init__(*more)
        self.matrices = _Anchored(self.settings, more[1])
        self.matrices.requires_grad_(self.learned)
        self.register_buffer("neighbours", neighbours, persistent=False)

    def draw_candidates(self, history: Tensor, length: Tensor, target: Tensor) -> Tensor:
        """A random unseen neighbour of a random item for each; a random item where there is none."""
        rows, n = history.shape
        k = self.settings.num_candidates
        row, slot = torch.arange(rows, device=history.device)[:, None], torch.arange(k, device=history.device)
        at = (torch.rand(rows, k, device=history.device) * length[:, None]).long()  # [R, k]
        avoid = torch.cat([history, target[:, None]], dim=1)
        options = self.neighbours[history.gather(1, at)]  # [R, k, top]
        fresh = (options > 0) & (options[..., None] != avoid[:, None, None, :]).all(-1)
        chosen = (torch.rand(options.shape, device=history.device) + fresh).argmax(-1, keepdim=True)
        candidates = options.gather(2, chosen).squeeze(2).masked_fill(~fresh.any(2), 0)
        earlier = torch.ones(k, k, dtype=torch.bool, device=history.device).tril(-1)
        twice = ((candidates[:, :, None] == candidates[:, None, :]) & earlier).any(2)
        uniform = sample_unseen(torch.cat([avoid, candidates], dim=1), k, self.n_items)
        size = n + k + (self.null is not None)
        self.matrices.preference = torch.zeros(rows, size, size, device=history.device)
        self.matrices.preference[row, n + slot, at] = _PREFERENCE
        return torch.where(twice | (candidates == 0), uniform, candidates)


class SimilarCandidates(AsarSASRec):
    """AsarSASRec with such candidates."""

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        neighbours = torch.from_numpy(cached_neighbours(dataset))
        size = self.item_embedding.embedding_dim
        with torch.random.fork_rng(devices=[]):  # the backbone's random stream stays its own
            self.augmenter = SimilarCandidateViews(
                neighbours, self.settings, size, self.n_items, self.max_seq_length
            )
