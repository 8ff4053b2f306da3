"""The same arithmetic in fewer passes over memory: softmax over a catalogue, GELU, and Adam."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from recbole.model.layers import FeedForward
from torch import Tensor, nn

_CHUNK = 1 << 21  # scores held at once: 8 MiB, so that they stay in the cache
_ALIGNED = 64  # targets at once are a multiple of it: matrix products like that


class _CatalogueCrossEntropy(torch.autograd.Function):
    """Forward computes the gradients too, chunk by chunk, so that the scores are never kept."""

    @staticmethod
    def forward(
        ctx: Any,
        encoded: Tensor,
        items: Tensor,
        targets: Tensor,
        seen: Tensor | None,
        history_penalty: float,
        gce_q: float,
    ) -> Tensor:
        rows = max(1, _CHUNK // items.size(0))
        rows = max(rows // _ALIGNED * _ALIGNED, min(rows, _ALIGNED))
        total = encoded.new_zeros(())
        needed = any(ctx.needs_input_grad)
        d_encoded, d_items = torch.empty_like(encoded), torch.zeros_like(items)
        held = encoded.new_empty(items.size(0) * min(rows, len(encoded)))
        parts = zip(encoded.split(rows), targets.split(rows), d_encoded.split(rows))
        for number, (part, wanted, out) in enumerate(parts):
            wanted = wanted[None]  # [1, rows]
            # a column a target: the product of this shape is the faster one
            scores = held[: items.size(0) * len(part)].view(items.size(0), len(part))
            torch.mm(items, part.T, out=scores)  # [items, rows]
            own = scores.gather(0, wanted)
            top = scores.amax(0, keepdim=True)
            weights = scores.sub_(top).exp_()
            if seen is not None:
                seen_items = seen[number * rows : number * rows + rows].T  # [h, rows]
                once = weights.gather(0, seen_items)
                heavier = torch.where(seen_items > 0, once * history_penalty, once)
                weights.scatter_(0, seen_items, heavier).scatter_(0, wanted, (own - top).exp())
            mass = weights.sum(0, keepdim=True)
            missed = mass.log() + top - own  # −log p
            total += generalized_cross_entropy(missed, gce_q).sum()
            if needed:
                # softmax minus one-hot, times the mass: what is divided by it is [rows, d], not [items, rows]
                weights.scatter_add_(0, wanted, -mass)
                mass /= torch.exp(-gce_q * missed)
                torch.mm(weights.T, items, out=out).div_(mass.T)
                d_items.addmm_(weights, part / mass.T)
        ctx.save_for_backward(d_encoded, d_items)
        return total / len(targets)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_encoded, d_items = ctx.saved_tensors
        scale = grads[0] / len(d_encoded)
        return d_encoded * scale, d_items * scale, None, None, None, None


def generalized_cross_entropy(missed: Tensor, q: float) -> Tensor:
    """Generalized cross-entropy ``(1 − p^q) / q`` of ``−log p`` (Zhang and Sabuncu 2018); q = 0 is CE.

    Its gradient is that of CE times ``p^q``: targets that cannot be predicted, noise above all, weigh less.
    """
    return -torch.expm1(-q * missed) / q if q else missed


def catalogue_cross_entropy(
    encoded: Tensor,
    items: Tensor,
    targets: Tensor,
    seen: Tensor | None = None,
    history_penalty: float = 1.0,
    gce_q: float = 0.0,
) -> Tensor:
    """``F.cross_entropy(encoded @ items.T, targets)`` without keeping the scores, and two variations of it.

    Args:
        encoded: encoded histories, ``[P, d]``.
        items: embeddings of the catalogue, ``[V, d]``.
        targets: the item each should predict, ``[P]``.
        seen: items of each history, 0 for none, ``[P, h]``.
        history_penalty: weight of such an item among the negatives.
        gce_q: q of :func:`generalized_cross_entropy`.

    Returns:
        The mean, a scalar. Memory grows with P + V, not with P · V.
    """
    with torch.autocast(encoded.device.type, enabled=False):
        loss: Tensor = _CatalogueCrossEntropy.apply(
            encoded.float(), items.float(), targets, seen, history_penalty, gce_q
        )
    return loss


def use_fused_gelu(model: nn.Module) -> None:
    """RecBole writes GELU as five operations; torch has it as one."""
    for module in model.modules():
        if isinstance(module, FeedForward) and module.intermediate_act_fn == module.gelu:
            module.intermediate_act_fn = F.gelu


def use_fused_adam(optimizer: torch.optim.Optimizer) -> None:
    """RecBole asks for Adam as a dozen passes over the weights; on a CPU torch has it as one."""
    if not isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)):
        return
    for group in optimizer.param_groups:
        if all(one.device.type == "cpu" and one.is_floating_point() for one in group["params"]):
            group["fused"], group["foreach"] = True, False
