"""A batch of which only some items are kept."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from recbole.data.interaction import Interaction
from torch import Tensor

from recbole_asarrec.augment import build_view
from recbole_asarrec.data import TARGETS, Columns


def sequences(interaction: Any, columns: Columns) -> Tensor:
    """Histories, each with what comes next behind it, ``[B, n+1]``."""
    history, length, target = (interaction[name] for name in columns[1:])
    return F.pad(history, (0, 1)).scatter(1, length[:, None], target[:, None])


def keep(interaction: Any, columns: Columns, sequence: Tensor, kept: Tensor) -> Any:
    """The batch as if its users had never interacted with the rest.

    A row whose target is not kept teaches nothing; in a sequence its neighbours become adjacent.

    Args:
        interaction: the batch; it is not changed.
        columns: its names.
        sequence: of :func:`sequences`, ``[B, n+1]``.
        kept: which items stay, at least two a row, ``[B, n+1]``.
    """
    position = torch.arange(sequence.size(1), device=kept.device)
    view = build_view(sequence, torch.where(kept, position, -1))
    before = position[:-1] < view.length[:, None] - 1
    batch = dict(interaction.interaction)
    batch[columns.items], batch[columns.length] = view.items[:, :-1] * before, view.length - 1
    if TARGETS in interaction:
        batch[TARGETS] = view.items[:, 1:]
        batch[columns.target] = view.items.gather(1, view.length[:, None] - 1).squeeze(1)
        return Interaction(batch)
    teaches = kept.gather(1, interaction[columns.length][:, None]).squeeze(1)
    if not teaches.any():
        return interaction
    return Interaction({name: column[teaches] for name, column in batch.items()})
