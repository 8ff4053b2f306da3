"""The best items of many users without their scores for the whole catalogue: blocked products, merged."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

ROWS, COLUMNS = 128, 16_384  # scores that are held at once, 8 MiB
_GROUP = 64  # items whose best score stands for them
_WORTH = 4  # groups are used where they leave at most a fourth of the scores to sort


class TopItems(NamedTuple):
    """The best items of each row, best first; a score of −∞ where there are fewer.

    Attributes:
        scores: ``[B, k]``.
        items: their ids, ``[B, k]``.
    """

    scores: Tensor
    items: Tensor

    def counts(self) -> Tensor:
        """How many items each row really has, ``[B]``."""
        return self.scores.isfinite().sum(1)


class Excluded(NamedTuple):
    """Items that some rows must not get; both ``[S]``, ordered by row."""

    row: Tensor
    item: Tensor

    def of_rows(self, first: int, last: int) -> Excluded:
        """Those of the rows from ``first`` to before ``last``, counted from ``first``."""
        begin, end = torch.searchsorted(
            self.row, torch.tensor([first, last], device=self.row.device)
        ).tolist()
        return Excluded(self.row[begin:end] - first, self.item[begin:end])

    def remove_from(self, scores: Tensor, first: int) -> None:
        """Set their scores to −∞, in place.

        Args:
            scores: of the items from ``first`` on, ``[B, C]``.
            first: id of the first column's item.
        """
        here = (self.item >= first) & (self.item < first + scores.size(1))
        scores[self.row[here], self.item[here] - first] = -torch.inf


def top_of_scores(scores: Tensor, k: int) -> TopItems:
    """The ``k`` best columns of each row, ``[B, C] → [B, min(k, C)]``.

    The k best items lie in the k groups with the best maxima, so that only these are sorted.
    """
    groups = scores.size(1) // _GROUP
    if k * _GROUP * _WORTH > scores.size(1):
        return TopItems(*scores.topk(min(k, scores.size(1))))
    whole = scores[:, : groups * _GROUP].unflatten(1, (groups, _GROUP))  # [B, groups, 64]
    best = whole.amax(2).topk(k, sorted=False).indices  # [B, k]
    kept = whole.gather(1, best[..., None].expand(-1, -1, _GROUP)).flatten(1)  # [B, k · 64]
    column = (best[..., None] * _GROUP + torch.arange(_GROUP, device=best.device)).flatten(1)
    rest = torch.arange(groups * _GROUP, scores.size(1), device=best.device)  # of no group
    kept = torch.cat([kept, scores[:, groups * _GROUP :]], 1)
    column = torch.cat([column, rest.expand(len(column), -1)], 1)
    value, place = kept.topk(k)
    return TopItems(value, column.gather(1, place))


def merge(one: TopItems, two: TopItems, k: int) -> TopItems:
    """The ``k`` best of two lists of different items."""
    scores, items = (torch.cat(parts, 1) for parts in zip(one, two))
    value, place = scores.topk(min(k, scores.size(1)))
    return TopItems(value, items.gather(1, place))


def top_by_product(users: Tensor, items: Tensor, k: int, excluded: Excluded | None = None) -> TopItems:
    """The ``k`` best items by inner product, holding at most :data:`ROWS` × :data:`COLUMNS` scores.

    Args:
        users: encoded histories, ``[B, d]``.
        items: item vectors, ``[V, d]``; the first is padding and never recommended.
        k: how many; fewer where the catalogue has fewer.
        excluded: what is left out.

    Returns:
        ``[B, min(k, V − 1)]``.
    """
    parts = []
    for first in range(0, len(users), ROWS):
        some = users[first : first + ROWS]
        left_out = excluded.of_rows(first, first + len(some)) if excluded is not None else None
        best: TopItems | None = None
        for begin in range(1, len(items), COLUMNS):
            scores = some @ items[begin : begin + COLUMNS].T  # [B, C]
            if left_out is not None:
                left_out.remove_from(scores, begin)
            found = top_of_scores(scores, k)
            found = TopItems(found.scores, found.items + begin)
            best = found if best is None else merge(best, found, k)
        parts.append(best)
    return TopItems(*(torch.cat(part) for part in zip(*parts)))
