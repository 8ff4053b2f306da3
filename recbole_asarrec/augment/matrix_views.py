"""Views by matrices: AsarRec's learned ones, and random ones at the same rate as their control."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recbole_asarrec.augment.augmenter import Augmenter
from recbole_asarrec.augment.candidates import sample_unseen
from recbole_asarrec.augment.similar import most_similar_unseen, similar_items
from recbole_asarrec.augment.view import build_view
from recbole_asarrec.augment.view_pair import Embed, ViewPair
from recbole_asarrec.config.settings import AsarSettings


class MatrixViews(nn.Module):
    """Expand a history by k candidates and a null item, draw two matrices for it, apply them.

    Args:
        settings: see ``properties/model/Asar.yaml``; ``augmentation: random_matrix`` draws without learning.
        embedding_size: d.
        n_items: size of the catalogue, padding included.
        longest: L, the longest view.
        neighbours: similar items of each item, best first, 0 for none, ``[n_items, top]``; the model's
            embeddings decide where there are none.
    """

    neighbours: Tensor | None

    def __init__(
        self,
        settings: AsarSettings,
        embedding_size: int,
        n_items: int,
        longest: int,
        neighbours: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("neighbours", neighbours, persistent=False)
        self.settings, self.n_items, self.longest = settings, n_items, longest
        self.learned = settings.augmentation == "asar"
        self.matrices = Augmenter(settings, embedding_size)
        self.null = nn.Parameter(torch.zeros(embedding_size)) if settings.null_item else None
        if not self.learned:
            self.requires_grad_(False)

    def forward(self, history: Tensor, length: Tensor, target: Tensor, embed: Embed) -> ViewPair:
        """Draw the two views of ``history`` ``[R, n]`` with ``length`` ``[R]`` and next items ``[R]``."""
        avoid = torch.cat([history, target[:, None]], dim=1)
        candidates, anchors = self.draw_candidates(history, length, avoid, embed)  # [R, k]
        expanded = torch.cat([history, candidates], dim=1)  # s*: [R, n+k]
        with torch.autocast(history.device.type, enabled=False):  # ten Sinkhorn rounds need float32
            shown, embedded = embed(expanded, history.size(1))
            valid = expanded != 0  # [R, n+k]
            if self.null is not None:  # an item that is none: positions it takes stay empty
                shown = torch.cat([shown, self.null.expand(len(shown), 1, -1)], dim=1)
                embedded = nn.functional.pad(embedded, (0, 0, 0, 1))
                valid = nn.functional.pad(valid, (0, 1), value=True)
            if not self.learned:
                shown = torch.zeros_like(shown)  # equal logits: the noise alone decides
            matrices = self.matrices(shown, valid, length, anchors)
        first, second = (build_view(expanded, one.source, self.longest) for one in matrices)
        return ViewPair((first, second), matrices, embedded if self.learned else None, candidates)

    @torch.no_grad()
    def draw_candidates(
        self, history: Tensor, length: Tensor, avoid: Tensor, embed: Embed
    ) -> tuple[Tensor, Tensor | None]:
        """The k unseen items that views may bring in, and the positions they prefer.

        Args:
            history: ids, ``[R, n]``.
            length: how many of them, ``[R]``.
            avoid: ids that are no candidates, ``[R, n+1]``.
            embed: see :mod:`recbole_asarrec.augment.view_pair`.

        Returns:
            Ids, 0 for none, and where each has an item of the history that it is similar to, both ``[R, k]``;
            uniform ones prefer no position.
        """
        count = self.settings.num_candidates
        if self.settings.candidates == "uniform":
            return sample_unseen(avoid, count, self.n_items), None
        anchors = (torch.rand(len(history), count, device=history.device) * length[:, None]).long()
        options = similar_items(history.gather(1, anchors), self.neighbours, embed, self.n_items)
        order = torch.rand(options.shape, device=options.device).argsort(-1)  # others every time
        options = options.gather(-1, order)  # [R, k, top]
        return most_similar_unseen(history.gather(1, anchors), options, avoid, self.n_items), anchors
