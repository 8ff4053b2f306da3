"""An index map is a hard semi-doubly stochastic matrix written as an index map.

``source[b, j]`` is the item of the expanded sequence that position j of the view takes, −1 for none. The
functions here keep an index map within its budget; :func:`to_matrix` shows it as the matrix of the paper.
"""

from __future__ import annotations

import torch
from torch import Tensor


def edit_budget(length: Tensor, ratio: float, least: int, up: bool = False) -> Tensor:
    """How many of ``length`` items may be edited: ``max(least, ⌊γ·n⌋)``, or ``⌈γ·n⌉`` with ``up``.

    Args:
        length: n per user, ``[B]``.
        ratio: γ.
        least: the smallest budget; 0 gives the paper's literal floor.
        up: round up instead of down.

    Returns:
        ``[B]``, long.
    """
    # the nudge keeps 0.1 · 30 from becoming 2 or 4 in binary
    exact = length.double() * ratio
    rounded = torch.ceil(exact - 1e-9) if up else torch.floor(exact + 1e-9)
    return rounded.long().clamp_min(least)


@torch.no_grad()
def cap_edits(source: Tensor, keep_score: Tensor, budget: Tensor, valid: Tensor) -> Tensor:
    """Undo the least wanted edits of an index map until each user is within its budget.

    An edit is a position that does not hold its own item. The edits whose own item clings least to its
    position are kept; the other positions get their item back. Where that item was moved by a kept edit, the
    item that this displaced takes the free place: a lone move becomes a swap, and nobody is lost.

    Args:
        source: the index map, ``[B, n]``, values in ``[−1, N)``.
        keep_score: how much each position's own item wants to stay, ``[B, n]``.
        budget: edits allowed per user, ``[B]``.
        valid: positions that exist, ``[B, n]``.

    Returns:
        The capped index map, ``[B, n]``.
    """
    batch, size = source.shape
    position = torch.arange(size, device=source.device).expand(batch, size)
    edited = (source != position) & valid
    order = keep_score.masked_fill(~edited, torch.inf).argsort(1)
    rank = torch.empty_like(order).scatter_(1, order, position)
    kept = edited & (rank < budget[:, None])

    # moved_to[b, i]: the position a kept edit gives to history item i, −1 for none; the last column of the
    # scratch table swallows everything that is not a move
    moves = kept & (source >= 0) & (source < size)
    scratch = source.new_full((batch, size + 1), -1)
    moved_to = scratch.scatter(1, torch.where(moves, source, size), position)[:, :size]

    displaced = moved_to.clamp_min(0)  # the item whose position was taken, or who took that one's, …
    for _ in range(int(moves.sum(1).max())):
        further = moved_to.gather(1, displaced)
        displaced = torch.where(further >= 0, further, displaced)
    undone = torch.where(moved_to >= 0, displaced, position)
    return torch.where(kept, source, undone).masked_fill(~valid, -1)


@torch.no_grad()
def never_empty(source: Tensor, scores: Tensor) -> Tensor:
    """Give an empty index map its strongest entry.

    Args:
        source: the index map, ``[B, n]``.
        scores: transition probabilities, 0 where invalid, ``[B, N, N]``.

    Returns:
        An index map with at least one item per user, ``[B, n]``.
    """
    size = source.size(1)
    best = scores[:, :, :size].flatten(1).argmax(1)  # [B]
    strongest = torch.full_like(source, -1).scatter(1, (best % size)[:, None], (best // size)[:, None])
    return torch.where((source < 0).all(1, keepdim=True), strongest, source)


def to_matrix(source: Tensor, size: int) -> Tensor:
    """Write an index map as the paper's matrix: ``M[i, j] = 1`` where item i goes to position j.

    Args:
        source: the index map, ``[B, n]``.
        size: N, the length of the expanded sequence.

    Returns:
        ``[B, N, n]``, float.
    """
    items = torch.arange(size, device=source.device)
    return (items[None, :, None] == source[:, None, :]).float()
