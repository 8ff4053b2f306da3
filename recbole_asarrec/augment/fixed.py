"""Views by fixed operations: the rivals of the learned ones, on equal terms.

crop, mask, reorder: Xie et al. "Contrastive Learning for Sequential Recommendation." ICDE 2022 (CL4SRec),
whose mask puts a token where here the item is dropped, as in AsarRec's paper. insert, substitute: Liu et al.
"Contrastive Self-supervised Sequential Recommendation with Robust Augmentation." 2021 (CoSeRec), here with
items drawn uniformly among the unseen. dropout: Qiu et al. "Contrastive Learning for Representation
Degeneration Problem in Sequential Recommendation." WSDM 2022 (DuoRec), its unsupervised view.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recbole_asarrec.augment.candidates import sample_unseen
from recbole_asarrec.augment.drawn import Drawn, Embed
from recbole_asarrec.augment.operations import OPERATIONS
from recbole_asarrec.augment.plan import edit_budget
from recbole_asarrec.augment.view import View, build_view
from recbole_asarrec.settings import AsarSettings

COMPOSED = {"cl4srec": ["mask", "reorder"]}  # names of papers for lists of operations


class FixedViews(nn.Module):
    """Two views of a history by operations that do not learn.

    One operation makes both views; two make one each; of more, each view of each user takes one at random.

    Args:
        settings: ``augmentation``, ``operation_ratio`` and the budget's keys.
        n_items: size of the catalogue, padding included.
        longest: L, the longest view.
    """

    def __init__(self, settings: AsarSettings, n_items: int, longest: int) -> None:
        super().__init__()
        asked = settings.augmentation
        names = COMPOSED.get(asked, [asked]) if isinstance(asked, str) else list(asked)
        self.choices = [[name] for name in names] if len(names) == 2 else [names, names]  # of each view
        self.settings, self.n_items, self.longest = settings, n_items, longest

    def forward(self, history: Tensor, length: Tensor, target: Tensor, embed: Embed) -> Drawn:
        """Draw the two views of ``history`` ``[R, n]`` with ``length`` ``[R]`` and next items ``[R]``."""
        avoid = torch.cat([history, target[:, None]], dim=1)
        first, second = (self._view(names, history, length, avoid) for names in self.choices)
        return Drawn((first, second))

    def _view(self, names: list[str], history: Tensor, length: Tensor, avoid: Tensor) -> View:
        made = [self._operate(name, history, length, avoid) for name in names]
        if len(made) == 1:
            return made[0]
        width = max(view.items.size(1) for view in made)
        items = torch.stack([nn.functional.pad(view.items, (0, width - view.items.size(1))) for view in made])
        choice = torch.randint(len(made), (len(history),), device=history.device)
        row = torch.arange(len(history), device=history.device)
        lengths = torch.stack([view.length for view in made])
        return View(items[choice, row], lengths[choice, row], items.new_zeros(len(history), width))

    def _operate(self, name: str, history: Tensor, length: Tensor, avoid: Tensor) -> View:
        options = self.settings
        ratio = options.perturbation if options.operation_ratio is None else options.operation_ratio
        edits = edit_budget(length, ratio, options.min_edits)
        plan = OPERATIONS[name](length, history.size(1), edits)
        new = sample_unseen(avoid, plan.anchor.size(1), self.n_items)
        # an item the catalogue could not give leaves its position empty
        there = torch.cat([history, new], dim=1)
        source = plan.source.masked_fill((there.gather(1, plan.source.clamp_min(0)) == 0), -1)
        return build_view(there, source, self.longest)
