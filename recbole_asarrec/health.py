"""What people watch while the augmenter learns: what it does to histories, and how hard the game is."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_asarrec.augment.augmenter import Transform
from recbole_asarrec.augment.view import View

EDIT_KINDS = ("kept", "dropped", "moved", "inserted", "substituted")


@torch.no_grad()
def count_edits(source: Tensor, length: Tensor) -> dict[str, Tensor]:
    """Sort the items of a batch of plans by what happened to them.

    Args:
        source: plans, ``[B, n]``; values from the history's width on are candidates.
        length: n per user, ``[B]``.

    Returns:
        Counts per kind, each ``[B]``. ``kept + moved + dropped`` is the history's length; a new item is
        *substituted* where the item whose place it takes was dropped, else *inserted*.
    """
    batch, width = source.shape
    place = torch.arange(width, device=source.device).expand(batch, width)
    own = place < length[:, None]  # history items, by index
    old = (source >= 0) & (source < length[:, None])
    new = source >= length[:, None]
    scratch = torch.zeros(batch, width + 1, dtype=torch.bool, device=source.device)
    used = scratch.scatter(1, torch.where(old, source, width), True)[:, :width]
    kept = (old & (source == place)).sum(1)
    substituted = new & own & ~used
    return {
        "kept": kept,
        "dropped": (own & ~used).sum(1),
        "moved": old.sum(1) - kept,
        "inserted": (new & ~substituted).sum(1),
        "substituted": substituted.sum(1),
    }


class Health:
    """Sums over an epoch, without waiting for the device at every step."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._weights: dict[str, float] = {}

    def _add(self, name: str, values: Tensor, weight: float) -> None:
        self._sums[name] = self._sums.get(name, 0) + values.detach().float().sum()
        self._weights[name] = self._weights.get(name, 0) + weight

    @torch.no_grad()
    def observe(self, views: tuple[View, View], contrast: Tensor) -> None:
        """Take in the two views of R users and their InfoNCE."""
        users = len(views[0].length)
        first, second = (view.items for view in views)
        width = max(first.size(1), second.size(1))
        first, second = (F.pad(items, (0, width - items.size(1))) for items in (first, second))
        self._add("identical_views", (first == second).all(1), users)
        self._add("infonce", contrast * users, users)

    @torch.no_grad()
    def observe_plans(
        self,
        transforms: tuple[Transform, Transform],
        length: Tensor,
        scores: tuple[Tensor, ...],
        floor: Tensor,
    ) -> None:
        """Take in what the matrices do to R histories, the views' NDCG and its bound, each ``[R]``."""
        users = len(length)
        for number, (transform, score) in enumerate(zip(transforms, scores), 1):
            for kind, count in count_edits(transform.source, length).items():
                self._add(f"view{number}/{kind}", count / length, users)
            self._add(f"view{number}/ndcg", score, users)
            self._add(f"view{number}/ndcg_below_floor", score < floor, users)
        self._add("ndcg_floor", floor, users)

    def report(self) -> dict[str, float]:
        """Means since the last report, by name; edit kinds are shares of a user's history."""
        means = {name: float(total) / self._weights[name] for name, total in self._sums.items()}
        self._sums, self._weights = {}, {}
        return means
