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


class _Threshold:
    """Finds rows and columns of matrices ``[N, N, B]`` whose valid entries hardly differ.

    Args:
        mask: 1 for the items and positions that exist, ``[N, B]``.
        threshold: δ in units of 1/N; a single valid entry is never undecided.
        slack: the last row and column always stay.
    """

    def __init__(self, mask: Tensor, threshold: float, slack: bool) -> None:
        size = mask.sum(0).clamp_min(1)  # [B]
        self.share, self.delta = 1 / size, torch.where(size > 1, threshold / size, -1.0)
        self.exempt = mask == 0  # [N, B]
        # lifts invalid entries above every normalized one
        self.absent = 2 * (1 - mask[:, None] * mask) if bool(self.exempt.any()) else None
        if slack:
            self.exempt[-1] = True

    def undecided(self, soft: Tensor, total: Tensor | float, dim: int) -> Tensor | None:
        """Rows (``dim=1``) or columns (``dim=0``) to set to zero, bool; None if there are none.

        Args:
            soft: ``[N, N, B]``.
            total: the sums of its rows or columns, or an upper bound.
            dim: 1 for rows, 0 for columns.
        """
        most, exempt = soft.amax(dim, keepdim=True), self.exempt.unsqueeze(dim)
        # one pass mostly tells: the least entry is at most the mean, so one that is δ above the mean decides
        if bool((exempt | (most >= self.share * total + self.delta)).all()):
            return None
        lifted = soft if self.absent is None else soft + self.absent
        found = (most - lifted.amin(dim, keepdim=True) < self.delta) & ~exempt
        return found if bool(found.any()) else None


class _SemiSinkhorn(torch.autograd.Function):
    """Normalizations with their gradient by hand, on matrices ``[N, N, B]``.

    Users lie side by side in memory: the matrices are small, so sums over a row or a column run over users.
    One matrix is normalized in place; backward multiplies by the sums again. It follows ``w = x·dx``: for
    ``y = x/Σx`` it is ``w_x = w_y − y·Σw_y``, which also holds where Σx is all but zero and x was divided by
    one; entries that are set to zero leave w as it is.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, valid: Tensor, rounds: int, threshold: float, slack: bool
    ) -> Tensor:
        mask = valid.T.to(scores.dtype)  # [N, B]
        start = scores.permute(1, 2, 0).contiguous() * (mask[:, None] * mask)  # [N, N, B]
        check = _Threshold(mask, threshold, slack) if threshold > 0 else None
        soft, sums = start.clone(), []
        before_zeros: dict[int, Tensor] = {}  # the matrix by the number of normalizations
        rows = soft.sum(1, keepdim=True)
        for _ in range(rounds):
            for dim in (1, 0):
                total = rows if dim else soft.sum(0, keepdim=True)
                if slack:  # the null item may be everywhere at once
                    total.select(1 - dim, -1).fill_(1.0)
                soft /= total.masked_fill_(total <= _NOTHING, 1.0)
                sums.append(total)
            rows = soft.sum(1, keepdim=True)
            if check is None:
                continue
            zeros = [check.undecided(soft, rows, 1), check.undecided(soft, 1.0, 0)]
            found = [one for one in zeros if one is not None]
            if found:
                before_zeros[len(sums)] = soft.clone()
                for one in found:
                    soft.masked_fill_(one, 0.0)
                rows = soft.sum(1, keepdim=True)
        ctx.slack, ctx.steps = slack, list(before_zeros)
        ctx.save_for_backward(start, soft, *sums, *before_zeros.values())
        return soft.permute(2, 0, 1).contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        start, last, *saved = ctx.saved_tensors
        sums = saved[: len(saved) - len(ctx.steps)]
        before_zeros = dict(zip(ctx.steps, saved[len(sums) :]))
        grad, soft = grads[0].permute(1, 2, 0).contiguous() * last, last.clone()
        for step in range(len(sums), 0, -1):
            dim = step % 2  # of the normalization; rows come first
            if step in before_zeros:
                soft = before_zeros[step].clone()
            total = grad.sum(dim, keepdim=True)
            if ctx.slack:
                total.select(1 - dim, -1).zero_()
            grad.addcmul_(soft, total, value=-1)
            soft *= sums[step - 1]
        grad /= start.masked_fill(start < _TINY, torch.inf)
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
