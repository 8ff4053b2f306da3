"""Views by fixed operations: the baselines of the learned ones, on equal terms.

crop, mask, reorder: Xie et al. "Contrastive Learning for Sequential Recommendation." ICDE 2022 (CL4SRec),
whose mask puts a token where here the item is dropped, as in AsarRec's paper. insert, substitute: Liu et al.
"Contrastive Self-supervised Sequential Recommendation with Robust Augmentation." 2021 (CoSeRec), with items
drawn uniformly among the unseen. coserec_*: the same with CoSeRec's choice, the item most similar to the one
it stands beside, here among the unseen. dropout: Qiu et al. "Contrastive Learning for Representation
Degeneration Problem in Sequential Recommendation." WSDM 2022 (DuoRec), its unsupervised view.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recbole_asarrec.augment.candidates import sample_unseen
from recbole_asarrec.augment.index_map import edit_budget
from recbole_asarrec.augment.operations import OPERATIONS
from recbole_asarrec.augment.similar import most_similar_unseen, similar_items
from recbole_asarrec.augment.view import View, build_view
from recbole_asarrec.augment.view_pair import Embed, ViewPair
from recbole_asarrec.config.settings import AsarSettings

COMPOSED = {"cl4srec": ["mask", "reorder"]}  # names of papers for lists of operations


def operations_of(augmentation: str | Sequence[str]) -> list[str]:
    """The operations behind a name or a list of names."""
    if isinstance(augmentation, str):
        return COMPOSED.get(augmentation, [augmentation])
    return list(augmentation)


class FixedViews(nn.Module):
    """Two views of a history by operations that do not learn.

    One operation makes both views; two make one each; of more, each view of each user takes one at random.

    Args:
        settings: ``augmentation``, ``operation_ratio`` and the budget's keys.
        n_items: size of the catalogue, padding included.
        longest: L, the longest view.
        neighbours: similar items of each item, best first, 0 for none, ``[n_items, top]``; the model's
            embeddings decide where there are none.
    """

    neighbours: Tensor | None

    def __init__(
        self, settings: AsarSettings, n_items: int, longest: int, neighbours: Tensor | None = None
    ) -> None:
        super().__init__()
        self.register_buffer("neighbours", neighbours, persistent=False)
        names = operations_of(settings.augmentation)
        self.choices = [[name] for name in names] if len(names) == 2 else [names, names]  # of each view
        self.settings, self.n_items, self.longest = settings, n_items, longest

    def forward(self, history: Tensor, length: Tensor, target: Tensor, embed: Embed) -> ViewPair:
        """Draw the two views of ``history`` ``[R, n]`` with ``length`` ``[R]`` and next items ``[R]``."""
        avoid = torch.cat([history, target[:, None]], dim=1)
        first, second = (self._view(names, history, length, avoid, embed) for names in self.choices)
        return ViewPair((first, second))

    def _view(self, names: list[str], history: Tensor, length: Tensor, avoid: Tensor, embed: Embed) -> View:
        made = [self._operate(name, history, length, avoid, embed) for name in names]
        if len(made) == 1:
            return made[0]
        width = max(view.items.size(1) for view in made)
        choice = self.choose(len(made), length)
        row = torch.arange(len(history), device=history.device)

        def chosen(name: str, padding: int) -> Tensor:
            tables = (getattr(view, name) for view in made)
            alike = [nn.functional.pad(table, (0, width - table.size(1)), value=padding) for table in tables]
            return torch.stack(alike)[choice, row]

        length = torch.stack([view.length for view in made])[choice, row]
        return View(chosen("items", 0), length, chosen("column", 0), chosen("source", -1))

    def choose(self, count: int, length: Tensor) -> Tensor:
        """Which of ``count`` operations each history of ``length`` ``[R]`` takes, uniform, ``[R]``."""
        return torch.randint(count, (len(length),), device=length.device)

    def _operate(self, name: str, history: Tensor, length: Tensor, avoid: Tensor, embed: Embed) -> View:
        options = self.settings
        edits = edit_budget(length, options.operation_budget, options.min_edits)
        index_map = OPERATIONS[name](length, history.size(1), edits)
        if name.startswith("coserec"):
            anchors = history.gather(1, index_map.anchor.clamp_min(0)).masked_fill(
                index_map.anchor < 0, 0
            )  # [R, k]
            new = most_similar_unseen(
                anchors, similar_items(anchors, self.neighbours, embed, self.n_items), avoid, self.n_items
            )
        else:
            new = sample_unseen(avoid, index_map.anchor.size(1), self.n_items)
        # an item the catalogue could not give leaves its position empty
        there = torch.cat([history, new], dim=1)
        source = index_map.source.masked_fill(there.gather(1, index_map.source.clamp_min(0)) == 0, -1)
        return build_view(there, source, self.longest)
