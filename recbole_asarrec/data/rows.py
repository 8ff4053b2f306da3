"""Rows of a sequential dataset that point into histories instead of holding copies of them.

RecBole copies the L items before each target into an ``[N, L]`` table per field. Here every interaction is
kept once, in the order of users and time; a row is a target, the position its history starts, and its length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from recbole.data.interaction import Interaction
from torch import Tensor

# internal columns: where a row's history starts, cut to L, and where its user's first interaction is
START, FIRST = "row_start", "row_first"


class Histories(NamedTuple):
    """Everybody's interactions, one after another.

    Attributes:
        fields: per list field (``item_id_list``, …) the values of all interactions, ``[M, …]``.
        length_field: the column that holds a row's length.
        longest: L, the longest history a row may have.
    """

    fields: dict[str, Tensor]
    length_field: str
    longest: int


def prefix_rows(users: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every interaction but a user's first is a target; its history is what the user did before.

    Args:
        users: whose interaction each is, users together and in time's order, ``[M]``.
        longest: L.

    Returns:
        Index of each row's target, of the first item of its history, and of its user's first, all ``[N]``.
    """
    index = np.arange(len(users))
    first = np.ones(len(users), dtype=bool)
    first[1:] = users[1:] != users[:-1]
    begins = np.maximum.accumulate(np.where(first, index, 0))
    target = index[~first]
    return target, np.maximum(begins[target], target - longest), begins[target]


def seen_before_target(
    items: Tensor, first: Tensor, target: Tensor, predicted: Tensor
) -> tuple[Tensor, Tensor]:
    """What users interacted with before their targets: whole histories, without the targets themselves.

    Args:
        items: everybody's items one after another, ``[M]``.
        first: where each row's user begins, ``[B]``.
        target: where each row's target is, ``[B]``.
        predicted: the item there, ``[B]``.

    Returns:
        Row and item of each, both ``[S]``: an index into scores ``[B, n_items]``.
    """
    length = target - first
    row = torch.repeat_interleave(torch.arange(len(length)), length)  # [S]
    position = torch.arange(len(row)) - torch.repeat_interleave(length.cumsum(0) - length, length)
    seen = items[first[row] + position]
    other = seen != predicted[row]
    return row[other], seen[other]


class Rows(Interaction):
    """An ``Interaction`` whose list fields are cut from :class:`Histories` when asked for.

    Args:
        columns: what is one value a row, ``[N]``, the length, :data:`START` and :data:`FIRST` among them.
        histories: where the lists are cut from.
    """

    def __init__(self, columns: dict[str, Tensor], histories: Histories) -> None:
        super().__init__(columns)
        self.histories = histories

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return self.padded(index) if index in self.histories.fields else self.interaction[index]
        index = index if isinstance(index, (slice, int)) else torch.as_tensor(index)
        return Rows({name: column[index] for name, column in self.interaction.items()}, self.histories)

    def __contains__(self, name: object) -> bool:
        return name in self.interaction or name in self.histories.fields

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    @property
    def columns(self) -> list[str]:
        """Names of all fields, lists included."""
        return [name for name in (*self.interaction, *self.histories.fields) if name not in (START, FIRST)]

    def drop(self, column: str) -> None:
        """Forget a field of these rows."""
        if column in self.histories.fields:
            kept = {name: values for name, values in self.histories.fields.items() if name != column}
            self.histories = self.histories._replace(fields=kept)
        else:
            super().drop(column)

    def padded(self, field: str, width: int | None = None, ahead: int = 0) -> Tensor:
        """One list field of these rows, right-padded with zeros, ``[N, width, …]``.

        Args:
            field: name of a list field.
            width: number of positions, L by default.
            ahead: take what follows each item by so many interactions instead of the item itself.
        """
        values = self.histories.fields[field]
        length, start = self.interaction[self.histories.length_field], self.interaction[START]
        position = torch.arange(width or self.histories.longest)
        index = (start[:, None] + position + ahead).clamp_max(len(values) - 1)  # [N, width]
        cut = values[index]
        padding = (position >= length[:, None]).reshape(*index.shape, *[1] * (cut.ndim - 2))
        return cut.masked_fill_(padding, 0)

    def materialize(self, width: int | None = None) -> Interaction:
        """These rows with their lists, as RecBole's own rows are."""
        columns = {name: self.interaction[name] for name in self.interaction if name not in (START, FIRST)}
        return Interaction({**columns, **{name: self.padded(name, width) for name in self.histories.fields}})

    def seen(self, field: str, target_field: str) -> tuple[Tensor, Tensor]:
        """:func:`seen_before_target` of these rows, from one list field."""
        columns = self.interaction
        target = columns[START] + columns[self.histories.length_field]
        return seen_before_target(self.histories.fields[field], columns[FIRST], target, columns[target_field])

    def longest(self) -> int:
        """The length of the longest of these rows."""
        return int(self.interaction[self.histories.length_field].max())

    # what makes something else of the rows makes it of the cut ones
    def to(self, device: Any, selected_field: Any = None) -> Interaction:
        """Cut, then move to a device."""
        return self.materialize().to(device, selected_field)

    def cpu(self) -> Interaction:
        """Cut, then move to the CPU."""
        return self.materialize().cpu()

    def numpy(self) -> dict[str, np.ndarray]:
        """Cut, as NumPy arrays."""
        return self.materialize().numpy()

    def repeat(self, sizes: int) -> Interaction:
        """Cut, then repeat."""
        return self.materialize().repeat(sizes)

    def repeat_interleave(self, repeats: Any, dim: int = 0) -> Interaction:
        """Cut, then repeat each row."""
        return self.materialize().repeat_interleave(repeats, dim)
