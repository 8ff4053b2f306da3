"""
FMLPRec
################################################

Reference:
    Kun Zhou et al. "Filter-enhanced MLP is All You Need for Sequential Recommendation." in WWW 2022.
"""

from __future__ import annotations

from typing import Any

import torch
from recbole.model.abstract_recommender import SequentialRecommender
from recbole.model.layers import FeedForward
from recbole.model.loss import BPRLoss
from torch import Tensor, nn


class FilterLayer(nn.Module):
    """A learnable filter in the frequency domain of the sequence, with residual and norm (paper, eq. 3–5)."""

    def __init__(self, length: int, hidden_size: int, dropout: float, eps: float, spread: float) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(length // 2 + 1, hidden_size, 2) * spread)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(hidden_size, eps=eps)

    def forward(self, hidden: Tensor) -> Tensor:
        """``[B, L, d] → [B, L, d]``."""
        with torch.autocast(hidden.device.type, enabled=False):  # there is no FFT in half precision
            spectrum = torch.fft.rfft(hidden.float(), dim=1, norm="ortho")
            filtered = torch.fft.irfft(
                spectrum * torch.view_as_complex(self.filter), n=hidden.size(1), dim=1, norm="ortho"
            )
        return self.norm(self.dropout(filtered) + hidden)

    def last(self, hidden: Tensor) -> Tensor:
        """The same at the last position alone, ``[B, L, d] → [B, 1, d]``.

        A product of spectra is a circular convolution: one place of it is a weighted sum over all L.
        """
        with torch.autocast(hidden.device.type, enabled=False):
            kernel = torch.fft.irfft(torch.view_as_complex(self.filter), n=hidden.size(1), dim=0)  # [L, d]
            filtered = (hidden.float() * kernel.flip(0)).sum(1, keepdim=True)
        return self.norm(self.dropout(filtered) + hidden[:, -1:])


class FilterBlock(nn.Module):
    """A filter and a feed-forward layer."""

    def __init__(self, mix: FilterLayer, feed_forward: FeedForward) -> None:
        super().__init__()
        self.mix, self.feed_forward = mix, feed_forward

    def forward(self, hidden: Tensor, last_only: bool = False) -> Tensor:
        """``[B, L, d] → [B, L, d]``, or ``[B, 1, d]`` where only the last position is read."""
        output: Tensor = self.feed_forward(self.mix.last(hidden) if last_only else self.mix(hidden))
        return output


class FMLPRec(SequentialRecommender):
    """Blocks of a global filter and a feed-forward layer, without attention.

    As in the authors' code the history ends at the last of L positions (RecBole's starts at the first),
    because the filter spans all L; the output is read there. CE is added to the authors' pairwise loss.
    """

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        size, eps = config["hidden_size"], config["layer_norm_eps"]
        self.initializer_range = config["initializer_range"]
        self.loss_type = config["loss_type"]
        self.item_embedding = nn.Embedding(self.n_items, size, padding_idx=0)
        self.position_embedding = nn.Embedding(self.max_seq_length, size)
        self.norm = nn.LayerNorm(size, eps=eps)
        dropout = config["hidden_dropout_prob"]
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            FilterBlock(
                FilterLayer(self.max_seq_length, size, dropout, eps, self.initializer_range),
                FeedForward(size, config["inner_size"], dropout, config["hidden_act"], eps),
            )
            for _ in range(config["n_layers"])
        )
        if self.loss_type not in ("BPR", "CE"):
            raise NotImplementedError("Make sure 'loss_type' in ['BPR', 'CE']!")
        self.loss_fct = BPRLoss() if self.loss_type == "BPR" else nn.CrossEntropyLoss()
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=self.initializer_range)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.data.zero_()

    def forward(self, item_seq: Tensor, item_seq_len: Tensor) -> Tensor:
        """``[B, L], [B] → [B, d]``."""
        return self.filter_embedded(self.item_embedding(item_seq), item_seq_len)

    def filter_embedded(self, items: Tensor, length: Tensor) -> Tensor:
        """What comes after the lookup, ``[B, L, d], [B] → [B, d]``."""
        position = torch.arange(items.size(1), device=items.device)
        shift = (position - (items.size(1) - length)[:, None]) % items.size(1)  # history to the right end
        items = items.gather(1, shift[..., None].expand_as(items))
        hidden = self.dropout(self.norm(items + self.position_embedding(position)))
        *before, last = self.blocks
        for block in before:
            hidden = block(hidden)
        return last(hidden, last_only=True).squeeze(1)

    def calculate_loss(self, interaction: Any) -> Tensor:
        """CE over the catalogue, or BPR against ``neg_item_id``."""
        encoded = self.forward(interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN])
        targets = interaction[self.POS_ITEM_ID]
        if self.loss_type == "CE":
            return self.loss_fct(encoded @ self.item_embedding.weight.T, targets)
        others = interaction[self.NEG_ITEM_ID]
        positive, negative = ((encoded * self.item_embedding(items)).sum(-1) for items in (targets, others))
        return self.loss_fct(positive, negative)

    def predict(self, interaction: Any) -> Tensor:
        """Scores of the given items, ``[B]``."""
        encoded = self.forward(interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN])
        return (encoded * self.item_embedding(interaction[self.ITEM_ID])).sum(-1)

    def full_sort_predict(self, interaction: Any) -> Tensor:
        """Scores of all items, ``[B, n_items]``."""
        encoded = self.forward(interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN])
        return encoded @ self.item_embedding.weight.T
