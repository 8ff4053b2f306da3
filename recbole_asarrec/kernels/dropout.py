"""Dropout whose masks come from random bytes: torch's ``bernoulli_`` dominates a training step on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def random_bytes(count: int) -> Tensor:
    """``count`` uniform bytes from torch's global generator, eight to a draw."""
    words = torch.empty((count + 7) // 8, dtype=torch.int64)
    return words.random_(torch.iinfo(torch.int64).min, None).view(torch.uint8)[:count]


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, threshold: int) -> Tensor:
        mask = (random_bytes(value.numel()) >= threshold).view(value.shape)
        ctx.save_for_backward(mask)
        ctx.scale = 256 / (256 - threshold)
        return value.mul(mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return grads[0].mul(mask).mul_(ctx.scale), None


class ByteDropout(nn.Dropout):
    """``nn.Dropout`` with p rounded to a multiple of 1/256 and the scale to match, so the mean is exact.

    On other devices than the CPU, and for p that rounds to 0 or 1, it is ``nn.Dropout``.
    """

    def forward(self, value: Tensor) -> Tensor:
        """Drop elements of ``value``, of any shape."""
        threshold = round(self.p * 256)
        if not self.training or value.device.type != "cpu" or not 0 < threshold < 256:
            return super().forward(value)
        out: Tensor = _Drop.apply(value, threshold)
        return out


def use_byte_dropout(model: nn.Module) -> None:
    """Replace every ``nn.Dropout`` of a model."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                setattr(parent, name, ByteDropout(child.p))
