"""Semi-Sinkhorn: from a probability matrix to a hard semi-doubly stochastic one (paper, Algorithm 1).

Everything is batched and masked; nothing loops over users. A sum of zero is divided by one, never by a
small number: ``x / sum.clamp_min(1e-8)`` is finite forward but multiplies gradients by 1e8 a round.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_NOTHING = 1e-8  # a row or column with less mass than this holds nothing


def _decided(soft: Tensor, absent: Tensor, dim: int, delta: Tensor) -> Tensor:
    """1 for rows (``dim=2``) or columns (``dim=1``) whose valid entries differ by ``delta``, else 0."""
    highest = soft.amax(dim, keepdim=True)  # entries are ≥ 0, and 0 where invalid
    lowest = (soft + absent).amin(dim, keepdim=True)
    return (highest - lowest >= delta).to(soft.dtype)


class _SemiSinkhorn(torch.autograd.Function):
    """Normalisations with their gradient by hand: ``y = x/Σx`` gives ``dx = (dy − Σ dy·y) / Σx``."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, valid: Tensor, rounds: int, threshold: float) -> Tensor:
        mask = valid.to(scores.dtype)
        pair = mask[:, :, None] * mask[:, None, :]  # [B, N, N]
        absent = 2 * (1 - pair)  # lifts invalid entries above every normalised one
        size = mask.sum(1).clamp_min(1)  # [B]
        delta = torch.where(size > 1, threshold / size, -1.0)[:, None, None]
        soft = scores * pair
        steps: list[Tensor] = []
        for _ in range(rounds):
            for dim in (2, 1):
                total = soft.sum(dim, keepdim=True)
                total = torch.where(total > _NOTHING, total, torch.ones_like(total))
                soft = soft / total
                steps += [soft, total]
            if threshold > 0:
                alive = _decided(soft, absent, 2, delta) * _decided(soft, absent, 1, delta)
                soft = soft * alive
                steps.append(alive)
        ctx.save_for_backward(pair, *steps)
        ctx.thresholded = threshold > 0
        return soft

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = grads[0]
        pair, *steps = ctx.saved_tensors
        while steps:
            if ctx.thresholded:
                grad = grad * steps.pop()
            for dim in (1, 2):
                total, soft = steps.pop(), steps.pop()
                # a row or column that holds nothing was divided by one; its entries are all but zero, so
                # the same formula holds
                grad = (grad - (grad * soft).sum(dim, keepdim=True)) / total
        return grad * pair, None, None, None


def semi_sinkhorn(scores: Tensor, valid: Tensor, rounds: int = 10, threshold: float = 0.1) -> Tensor:
    """Normalise rows and columns in turn, setting undecided ones to zero.

    Args:
        scores: non-negative transition probabilities, ``[B, N, N]``; ``scores[b, i, j]`` is how much item
            ``i`` wants position ``j``.
        valid: which of the N items and positions exist, ``[B, N]``.
        rounds: T of Algorithm 1.
        threshold: δ of Algorithm 1 in units of ``1/N`` (N counted per user, valid entries only). A single
            valid entry is never undecided.

    Returns:
        S, ``[B, N, N]``, differentiable in ``scores``: columns sum to 0 or 1, rows nearly so.

    Example:
        >>> semi_sinkhorn(torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool))[0].diagonal()
        tensor([1., 1., 1.])
    """
    soft: Tensor = _SemiSinkhorn.apply(scores, valid, rounds, threshold)
    return soft


@torch.no_grad()
def mutual_argmax(scores: Tensor, one_pass: bool = False) -> Tensor:
    """Round to a hard semi-doubly stochastic matrix by iterated mutual argmax.

    Every positive entry that is the maximum of its row and of its column is taken, its row and column are
    crossed out, and so on until nothing positive is left.

    Args:
        scores: non-negative, ``[B, N, N]``; zero means "never".
        one_pass: stop after the first pass, as the paper's ``argmax_per_row_col`` may be read.

    Returns:
        ``[B, N]``: for each position j the item placed there, −1 for none.
    """
    rest = scores.clone()
    batch, size, _ = rest.shape
    position = torch.arange(size, device=rest.device).expand(batch, size)
    source = torch.full_like(position, -1)
    for _ in range(1 if one_pass else size):
        best, item = rest.max(1)  # of each column: [B, N]
        chosen = (rest.argmax(2).gather(1, item) == position) & (best > 0)
        if not chosen.any():
            break
        source = torch.where(chosen, item, source)
        used = torch.zeros_like(position).scatter_add_(1, item, chosen.long()) > 0  # items just placed
        rest *= (~chosen)[:, None, :]
        rest *= (~used)[:, :, None]
    return source
