"""How a trained model is asked for the best items: in batches of similar length, by inner product if it can.

What a model allows is tried, not looked up, so that every sequential model of RecBole takes the fastest way
that gives its own scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from recbole.data.interaction import Interaction
from torch import Tensor

from recbole_asarrec.inference.topk import COLUMNS, ROWS, Excluded, TopItems, top_by_product, top_of_scores

_POSITIONS = 16_384  # that are encoded at once, padding included
_LARGEST = 1024  # histories that are encoded at once
_CLOSE = 1e-4  # relative difference between two ways to the same scores
_FAILS = (RuntimeError, IndexError, KeyError, ValueError, TypeError, AttributeError, AssertionError)


class Scorer:
    """A model, and the fastest way to its best items.

    Args:
        model: a trained sequential model of RecBole in evaluation mode, on its device.
        longest: L, the longest history it reads.

    Attributes:
        by_product: its scores are inner products of ``model.forward`` and ``model.item_embedding``.
        trims: padding does not change them, so that a batch is as wide as its longest history.
    """

    def __init__(self, model: Any, longest: int) -> None:
        self.model, self.longest = model, longest
        self.device = next(model.parameters()).device
        items, length = self._padded(self._probe(), longest)
        expected = self._scores(items, length)  # [P, V]
        self.by_product = _agrees(
            lambda: self._vectors(items, length) @ model.item_embedding.weight.T, expected
        )
        ask = self._vectors if self.by_product else self._scores
        whole = ask(items, length)
        self.trims = all(
            _agrees(partial(ask, items[row, None, :n], length[row, None]), whole[row, None])
            for row, n in enumerate(length.tolist())
        )

    @torch.no_grad()
    def best(self, histories: Sequence[Sequence[int]], k: int, exclude_history: bool = False) -> TopItems:
        """The ``k`` best items of each history, in their order, on the CPU, ``[B, min(k, V − 1)]``.

        Args:
            histories: item ids, oldest first; none of them empty.
            k: how many; fewer where the catalogue has fewer.
            exclude_history: leave out what is in the history, the items before the newest L, too.
        """
        order = sorted(range(len(histories)), key=lambda row: min(len(histories[row]), self.longest))
        by_length = [histories[row] for row in order]
        excluded = self._seen(by_length) if exclude_history else None
        if self.by_product:
            users = torch.cat(
                [self._vectors(*self._batch(by_length[rows])) for rows in self._slices(by_length)]
            )
            found = top_by_product(users, self.model.item_embedding.weight.float(), k, excluded)
        else:
            found = self._top_of_batches(by_length, k, excluded)
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return TopItems(found.scores.cpu()[back], found.items.cpu()[back])

    def _top_of_batches(
        self, histories: Sequence[Sequence[int]], k: int, excluded: Excluded | None
    ) -> TopItems:
        """For a model whose scores are its own affair: a batch's whole scores at a time."""
        parts = []
        for rows in self._slices(histories):
            scores = self._scores(*self._batch(histories[rows]))[:, 1:]  # without padding
            if excluded is not None:
                excluded.of_rows(rows.start, rows.stop).remove_from(scores, 1)
            found = top_of_scores(scores, k)
            parts.append(TopItems(found.scores, found.items + 1))
        return TopItems(*(torch.cat(part) for part in zip(*parts)))

    def _slices(self, histories: Sequence[Sequence[int]]) -> Iterator[slice]:
        """Histories to ask for at once, of histories that are ordered by length."""
        most = _LARGEST if self.by_product else max(1, ROWS * COLUMNS // self.model.n_items)
        first = 0
        while first < len(histories):
            last = min(first + most, len(histories))
            while last > first + 1 and (last - first) * self._width(histories[last - 1]) > _POSITIONS:
                last -= 1
            yield slice(first, last)
            first = last

    def _width(self, longest: Sequence[int]) -> int:
        """How wide a batch is whose longest history is this one."""
        return min(len(longest), self.longest) if self.trims else self.longest

    def _batch(self, histories: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        return self._padded(histories, self._width(histories[-1]))

    def _padded(self, histories: Sequence[Sequence[int]], width: int) -> tuple[Tensor, Tensor]:
        """The newest items of histories, padded on the right, ``[B, width]``, and how many, ``[B]``."""
        newest = [history[-self.longest :] for history in histories]
        length = np.array([len(ids) for ids in newest], dtype=np.int64)
        rows = np.zeros((len(newest), width), dtype=np.int64)
        rows[np.arange(width) < length[:, None]] = np.fromiter(chain.from_iterable(newest), dtype=np.int64)
        return torch.from_numpy(rows).to(self.device), torch.from_numpy(length).to(self.device)

    def _seen(self, histories: Sequence[Sequence[int]]) -> Excluded:
        """What is in the histories."""
        count = torch.tensor([len(history) for history in histories])
        item = torch.from_numpy(np.fromiter(chain.from_iterable(histories), dtype=np.int64))
        row = torch.repeat_interleave(torch.arange(len(histories)), count)
        return Excluded(row.to(self.device), item.to(self.device))

    def _probe(self) -> list[list[int]]:
        """Made-up histories of different lengths."""
        sizes = sorted({min(n, self.longest) for n in (1, 2, 3, self.longest // 2 + 1, self.longest)})
        others = self.model.n_items - 1
        return [[1 + (7 * row + n) % others for n in range(size)] for row, size in enumerate(sizes)]

    @torch.no_grad()
    def _vectors(self, items: Tensor, length: Tensor) -> Tensor:
        """``[B, n], [B] → [B, d]``."""
        encoded: Tensor = self.model.forward(items, length)
        return encoded.float()

    @torch.no_grad()
    def _scores(self, items: Tensor, length: Tensor) -> Tensor:
        """``[B, n], [B] → [B, V]``."""
        batch = Interaction({self.model.ITEM_SEQ: items, self.model.ITEM_SEQ_LEN: length})
        scores: Tensor = self.model.full_sort_predict(batch)
        return scores.view(len(items), -1).float()


def _agrees(ask: Callable[[], Tensor], expected: Tensor) -> bool:
    """Whether another way gives the same figures, up to rounding; one that fails does not."""
    try:
        with torch.no_grad():
            found = ask()
    except _FAILS:
        return False
    return found.shape == expected.shape and bool(
        (found - expected).abs().max() <= _CLOSE * expected.abs().max()
    )
