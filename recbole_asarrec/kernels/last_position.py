"""A transformer's last layer at the one position that is read: RecBole computes all and keeps one."""

from __future__ import annotations

import torch
from recbole.model.layers import TransformerLayer
from torch import Tensor


def last_position(layer: TransformerLayer, hidden: Tensor, mask: Tensor, position: Tensor) -> Tensor:
    """``layer(hidden, mask)`` at one position of each row, equal to RecBole's up to float rounding.

    Args:
        layer: RecBole's, with attention and feed-forward.
        hidden: its input, ``[B, n, d]``.
        mask: additive attention mask, ``[B, 1, n, n]``.
        position: the one that is read, ``[B]``.

    Returns:
        ``[B, d]``.
    """
    part, row = layer.multi_head_attention, torch.arange(hidden.size(0), device=hidden.device)
    own = hidden[row, position, None]  # [B, 1, d]

    def heads(mixed: Tensor) -> Tensor:
        return part.transpose_for_scores(mixed).transpose(1, 2)  # [B, heads, positions, d / heads]

    scores = heads(part.query(own)) @ heads(part.key(hidden)).transpose(-1, -2)
    scores = scores / part.sqrt_attention_head_size + mask[row, :, position, None]  # [B, heads, 1, n]
    context = part.attn_dropout(part.softmax(scores)) @ heads(part.value(hidden))
    attended = part.LayerNorm(part.out_dropout(part.dense(context.transpose(1, 2).flatten(2))) + own)
    output: Tensor = layer.feed_forward(attended).squeeze(1)
    return output
