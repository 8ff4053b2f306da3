"""A transformer's last layer at the one place that is read: RecBole computes every place and keeps one."""

from __future__ import annotations

from typing import Any

import torch
from recbole.model.layers import TransformerLayer
from torch import Tensor


class LastPlaceLayer(TransformerLayer):
    """RecBole's layer, which computes one place of each row alone when told which.

    Attributes:
        place: the place of each row that is read, ``[B]``; every place where there is none.
    """

    place: Tensor | None = None

    def forward(self, hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
        """``[B, n, d] → [B, n, d]``; with a ``place``, all n are what that one should be."""
        if self.place is None:
            every: Tensor = super().forward(hidden_states, attention_mask)
            return every
        part, row = self.multi_head_attention, torch.arange(len(hidden_states), device=hidden_states.device)
        own = hidden_states[row, self.place, None]  # [B, 1, d]
        hidden_from_it = attention_mask[row, :, self.place, None]  # [B, 1, 1, n]

        def heads(mixed: Tensor) -> Tensor:
            return part.transpose_for_scores(mixed).transpose(1, 2)  # [B, heads, places, d / heads]

        scores = heads(part.query(own)) @ heads(part.key(hidden_states)).transpose(-1, -2)
        scores = scores / part.sqrt_attention_head_size + hidden_from_it  # [B, heads, 1, n]
        context = part.attn_dropout(part.softmax(scores)) @ heads(part.value(hidden_states))
        context = context.transpose(1, 2).flatten(2)  # [B, 1, d]
        attended = part.LayerNorm(part.out_dropout(part.dense(context)) + own)
        return self.feed_forward(attended).expand_as(hidden_states)


def use_last_place(encoder: Any) -> None:
    """Let the last layer of RecBole's ``TransformerEncoder`` be told what is read; its parameters stay."""
    encoder.layer[-1].__class__ = LastPlaceLayer


def read_at(encoder: Any, place: Tensor | None) -> None:
    """Tell the last layer which place of each row is read, ``[B]``, or that all are."""
    encoder.layer[-1].place = place
