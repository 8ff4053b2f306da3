"""An index map applied: the view's item ids, and the path that its gradient takes back to the matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class View(NamedTuple):
    """A right-padded view, as RecBole's backbones read it.

    Attributes:
        items: item ids, 0 for padding, ``[B, n]``.
        length: how many there are, at least 1, ``[B]``.
        column: the matrix column each position came from, ``[B, n]``.
        source: the item of the expanded sequence at each position, −1 for padding, ``[B, n]``.
    """

    items: Tensor
    length: Tensor
    column: Tensor
    source: Tensor


@torch.no_grad()
def build_view(expanded: Tensor, source: Tensor, width: int | None = None) -> View:
    """Gather an index map's items and close the gaps to the left.

    Args:
        expanded: ids of ``s*``, ``[B, N]``.
        source: the index map, ``[B, n]``.
        width: the longest view the backbone takes; of a longer one the newest items stay.

    Returns:
        The view, at most ``width`` wide.
    """
    filled = source >= 0
    width = min(width or source.size(1), source.size(1))
    length = filled.sum(1)  # [B]
    column = (~filled).long().argsort(dim=1, stable=True)  # filled columns first, in order
    oldest = (length - width).clamp_min(0)  # [B]
    position = torch.arange(width, device=source.device) + oldest[:, None]
    column = column.gather(1, position)
    source = source.gather(1, column)  # −1 for padding: filled columns come first
    items = expanded.gather(1, source.clamp_min(0))
    return View(items.masked_fill(source < 0, 0), length.clamp_max(width), column, source)


@torch.no_grad()
def aligned_positions(first: View, second: View, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Positions where two views of a history can be compared: at each item that both have, and at their ends.

    Args:
        first: one view.
        second: the other.
        size: n, the width of the history; sources from there on are new items, which are not compared.

    Returns:
        Row, position in the first and position in the second view of each, all ``[P]``, at least one a row.
    """
    old = (first.source >= 0) & (first.source < size)
    same = (first.source[:, :, None] == second.source[:, None, :]) & old[:, :, None]  # [B, n, n]
    row = torch.arange(len(same), device=same.device)
    same[row, first.length - 1, second.length - 1] = True
    found, one, two = same.nonzero(as_tuple=True)
    return found, one, two


class _CarryGradient(torch.autograd.Function):
    """Identity forward; backward, the gradient of ``view = Mᵀ·E`` for M."""

    @staticmethod
    def forward(
        ctx: Any, embedded: Tensor, soft: Tensor, expanded: Tensor, view: View, scale: float
    ) -> Tensor:
        ctx.save_for_backward(expanded, view.column, view.length)
        ctx.soft_shape, ctx.scale = soft.shape, scale
        return embedded.view_as(embedded)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        expanded, column, length = ctx.saved_tensors
        batch, size, width = ctx.soft_shape
        position = torch.arange(column.size(1), device=column.device)
        seen = grad[:, : len(position)].to(expanded.dtype)  # [B, n, d]; a backbone may have padded the view
        seen = seen * (position < length[:, None]).unsqueeze(-1)
        benefit = expanded @ seen.transpose(1, 2)  # [B, N, n]
        soft_grad = benefit.new_zeros(batch, size, width)
        soft_grad.scatter_(2, column[:, None, :].expand(-1, size, -1), benefit * ctx.scale)
        return grad, soft_grad, None, None, None


def carry_gradient(embedded: Tensor, soft: Tensor, expanded: Tensor, view: View, scale: float) -> Tensor:
    """Return ``embedded`` unchanged, with a straight-through gradient to the matrix.

    This is ``Mᵀ·E`` with ``M = (M_hard − S).detach() + S`` (Algorithm 1), without forming the product: the
    view's embeddings are looked up, and only the backward pass multiplies.

    Args:
        embedded: embeddings of the view's items, ``[B, n, d]``.
        soft: S, ``[B, N, N]``.
        expanded: detached embeddings of ``s*``, ``[B, N, d]``.
        view: where each position came from.
        scale: factor on the gradient; negative reverses it, so that the augmenter climbs where the
            recommender descends.
    """
    out: Tensor = _CarryGradient.apply(embedded, soft, expanded, view, scale)
    return out
