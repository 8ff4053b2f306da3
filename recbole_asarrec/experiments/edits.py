"""What a finished view did to its history, position by position."""

from __future__ import annotations

import torch
from torch import Tensor

from recbole_asarrec.augment import View
from recbole_asarrec.training.monitor import EDIT_KINDS


def index_map_of(view: View, length: Tensor, width: int) -> Tensor:
    """A view as an index map over the history's positions.

    Args:
        view: a view; an insertion may have made it longer than the history.
        length: n per user, ``[R]``.
        width: of the history's table.

    Returns:
        ``[R, width]``, −1 for an empty position; a longer view shows its newest n positions.
    """
    last = torch.where(view.source >= 0, view.column, -1).max(1).values + 1  # [R]
    overflow = (last - length).clamp_min(0)[:, None]
    position = view.column - overflow
    position = position.masked_fill((view.source < 0) | (position < 0), width)  # the scratch column
    index_map = view.source.new_full((len(length), width + 1), -1)
    return index_map.scatter(1, position, view.source)[:, :width]


def sort_edits(view: View, length: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """What happened to each position of a view, and which history items it lacks.

    As :func:`~recbole_asarrec.training.monitor.count_edits`, except that an item that stands later only
    because something was inserted before it is kept.

    Args:
        view: a view of R histories.
        length: n per user, ``[R]``.
        width: of the history's table; sources from there on are new items.

    Returns:
        Indices of :data:`EDIT_KINDS` by position, −1 for padding, ``[R, m]``; dropped items, ``[R, width]``.
    """
    kept, moved, inserted, substituted = map(EDIT_KINDS.index, ("kept", "moved", "inserted", "substituted"))
    source, column = view.source, view.column
    old, new = (source >= 0) & (source < width), source >= width
    item = torch.arange(width, device=source.device)
    scratch = torch.zeros(len(length), width + 1, dtype=torch.bool, device=source.device)
    used = scratch.scatter(1, torch.where(old, source, width), True)
    dropped = (item < length[:, None]) & ~used[:, :width]
    # a new item replaces the one whose position it takes, if that one is gone
    beside = torch.nn.functional.pad(dropped, (0, 1)).gather(1, column.clamp_max(width))
    replaces = new & beside
    inserts = (new & ~replaces).long()
    pushed = inserts.cumsum(1) - inserts  # insertions before each position
    stays = old & ((source == column) | (source == column - pushed))
    kind = torch.where(stays, kept, torch.where(old, moved, torch.where(replaces, substituted, inserted)))
    return kind.masked_fill(source < 0, -1), dropped
