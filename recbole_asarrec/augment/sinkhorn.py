"""Semi-Sinkhorn: from a probability matrix to a hard semi-doubly stochastic one (paper, Algorithm 1).

Everything is batched and masked; nothing loops over users. A sum of zero is divided by one, never by a
small number: ``x / sum.clamp_min(1e-8)`` is finite forward but multiplies gradients by 1e8 a round.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_NOTHING = 1e-8  # a row or column with less mass than this holds nothing
_TINY = 1e-30  # a score below this has no say, and no gradient


def _decided(soft: Tensor, absent: Tensor | None, dim: int, delta: Tensor) -> Tensor:
    """Rows (``dim=1``) or columns (``dim=0``) whose valid entries differ by ``delta``, bool."""
    lifted = soft if absent is None else soft + absent
    return soft.amax(dim, keepdim=True) - lifted.amin(dim, keepdim=True) >= delta  # aminmax is slower


class _SemiSinkhorn(torch.autograd.Function):
    """Normalisations with their gradient by hand, on matrices ``[N, N, B]``.

    Users lie side by side in memory: the matrices are small, so sums over a row or a column run over users.
    Backward follows ``w = x·dx``. For ``y = x/Σx`` it is ``w_x = w_y − y·Σw_y``, which also holds where Σx is
    all but zero and x was divided by one; entries that are set to zero leave w as it is.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, valid: Tensor, rounds: int, threshold: float, slack: bool
    ) -> Tensor:
        mask = valid.T.to(scores.dtype)  # [N, B]
        pair = mask[:, None] * mask  # [N, N, B]
        # lifts invalid entries above every normalized one
        absent = None if bool(valid.all()) else 2 * (1 - pair)
        size = mask.sum(0).clamp_min(1)  # [B]
        delta = torch.where(size > 1, threshold / size, -1.0)
        start = soft = scores.permute(1, 2, 0).contiguous() * pair
        steps: list[Tensor] = []
        for _ in range(rounds):
            for dim in (1, 0):
                total = soft.sum(dim, keepdim=True)
                if slack:  # the null item may be everywhere at once
                    total.select(1 - dim, -1).fill_(1.0)
                soft = soft / total.masked_fill_(total <= _NOTHING, 1.0)
                steps.append(soft)
            if threshold > 0:
                rows, columns = (_decided(soft, absent, dim, delta) for dim in (1, 0))
                if slack:
                    rows[-1], columns[:, -1] = True, True
                if not (rows.all() and columns.all()):
                    soft = (soft * rows).mul_(columns)
        ctx.slack = slack
        ctx.save_for_backward(start, soft, *steps)
        return soft.permute(2, 0, 1).contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        start, last, *steps = ctx.saved_tensors
        grad = grads[0].permute(1, 2, 0).contiguous() * last
        for number, soft in enumerate(reversed(steps)):
            dim = number % 2
            total = grad.sum(dim, keepdim=True)
            if ctx.slack:
                total.select(1 - dim, -1).zero_()
            grad = grad.addcmul(soft, total, value=-1)
        grad = grad / start.masked_fill(start < _TINY, torch.inf)
        return grad.permute(2, 0, 1), None, None, None, None


def semi_sinkhorn(
    scores: Tensor, valid: Tensor, rounds: int = 10, threshold: float = 0.1, slack: bool = False
) -> Tensor:
    """Normalize rows and columns in turn, setting undecided ones to zero.

    Args:
        scores: non-negative transition probabilities, ``[B, N, N]``; ``scores[b, i, j]`` is how much item
            ``i`` wants position ``j``.
        valid: which of the N items and positions exist, ``[B, N]``.
        rounds: T of Algorithm 1.
        threshold: δ of Algorithm 1 in units of ``1/N`` (N counted per user, valid entries only). A single
            valid entry is never undecided.
        slack: the last item is none at all: its row and column are not normalized, so that any position may
            stay empty and any item go nowhere (as the dustbin of Sarlin et al., SuperGlue, 2020).

    Returns:
        S, ``[B, N, N]``, differentiable in ``scores``: columns sum to 0 or 1, rows nearly so.

    Example:
        >>> semi_sinkhorn(torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool))[0].diagonal()
        tensor([1., 1., 1.])
    """
    soft: Tensor = _SemiSinkhorn.apply(scores, valid, rounds, threshold, slack)
    return soft


@torch.no_grad()
def mutual_argmax(scores: Tensor, one_pass: bool = False, slack: bool = False) -> Tensor:
    """Round to a hard semi-doubly stochastic matrix by iterated mutual argmax.

    Every positive entry that is the maximum of its row and of its column is taken, its row and column are
    crossed out, and so on until nothing positive is left.

    Args:
        scores: non-negative, ``[B, N, N]``; zero means "never".
        one_pass: stop after the first pass, as the paper's ``argmax_per_row_col`` may be read.
        slack: the last item is none at all: a position that prefers it stays empty, an item that prefers its
            position is dropped, and any number may.

    Returns:
        ``[B, N]``: for each position j the item placed there, −1 for none.
    """
    rest = scores.clone()
    batch, size, _ = rest.shape
    every = torch.full((batch, size), -1, device=rest.device)
    left = torch.arange(batch, device=rest.device)  # users who are not done
    for _ in range(1 if one_pass else 2 * size):
        position = torch.arange(size, device=rest.device).expand(len(rest), size)
        best, item = rest.max(1)  # of each column: [B, N]
        most, wanted = rest.max(2)  # of each row: [B, N]
        chosen = (wanted.gather(1, item) == position) & (best > 0)
        empty = used = torch.zeros_like(chosen)
        if slack:
            chosen &= (item < size - 1) & (position < size - 1)
            empty = (item == size - 1) & (best > 0) & (position < size - 1)
            used = (wanted == size - 1) & (most > 0) & (position < size - 1)  # items that go nowhere
        progress = (chosen | empty | used).any(1)  # [users left]
        if not progress.any():
            break
        every[left] = torch.where(chosen, item, every[left])
        used = used | (torch.zeros_like(position).scatter_add_(1, item, chosen.long()) > 0)
        rest *= (~(chosen | empty))[:, None, :]
        rest *= (~used)[:, :, None]
        going = progress & (rest[:, : size - slack, : size - slack] > 0).flatten(1).any(1)
        if not going.all():
            rest, left = rest[going], left[going]
        if not len(left):
            break
    return every
