"""The part of a model that turns a history into a user vector, checked to be all that scores need."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from recbole.data.interaction import Interaction
from torch import Tensor, nn

from recbole_asarrec.errors import ExportError
from recbole_asarrec.models.asarrec import AsarRec

TOLERANCE = 1e-4  # of the largest score
_MOST_SCORES = 1 << 25  # computed at once in a check: 128 MiB


class HistoryEncoder(nn.Module):
    """Item ids to user vectors, ``[B, n] → [B, d]``.

    Args:
        model: a sequential model of RecBole or of this package; it is put into evaluation mode.

    Attributes:
        max_length: L, the longest history.
        pads: whether histories are padded to L first, because the model's output depends on padding.

    Raises:
        ExportError: the model encodes something else than a history of items.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.max_length: int = model.max_seq_length
        self.pads = False
        self._takes_length = True
        if not isinstance(model, AsarRec):
            takes = list(inspect.signature(model.forward).parameters)
            if takes not in (["item_seq"], ["item_seq", "item_seq_len"]):
                raise _refused(model, f"it encodes ({', '.join(takes)}) instead of a history of items")
            self._takes_length = len(takes) == 2
        self.eval()

    def forward(self, items: Tensor) -> Tensor:
        """``[B, n] → [B, d]``; ids on the left, 0 after them."""
        length = (items != 0).sum(1)
        if self.pads:
            items = F.pad(items, (0, self.max_length - items.size(1)))
        if isinstance(self.model, AsarRec):
            return self.model.encode(items, length)
        encoded: Tensor = self.model(items, length) if self._takes_length else self.model(items)
        return encoded


def _refused(model: Any, reason: str) -> ExportError:
    return ExportError(f"{type(model).__name__} cannot be exported: {reason}.")


def random_histories(num_items: int, max_length: int, count: int, seed: int = 0) -> Tensor:
    """Made-up histories of 1 to L items, ``[count, L]``; the first has all L, the second has one."""
    generator = torch.Generator().manual_seed(seed)
    items = torch.randint(1, num_items + 1, (count, max_length), generator=generator)
    length = torch.randint(1, max_length + 1, (count,), generator=generator)
    length[:2] = torch.tensor([max_length, 1])[:count]
    return items * (torch.arange(max_length) < length[:, None])


def check_count(num_items: int, most: int = 64) -> int:
    """How many histories are scored in a check, so that it fits into memory."""
    return max(2, min(most, _MOST_SCORES // num_items))


@torch.no_grad()
def full_scores(model: Any, items: Tensor) -> Tensor:
    """The model's own scores of the catalogue, ``[B, L] → [B, V + 1]``.

    Raises:
        ExportError: a history of items is not all that its scores need.
    """
    batch = Interaction({model.ITEM_SEQ: items, model.ITEM_SEQ_LEN: (items != 0).sum(1)})
    try:
        scores: Tensor = model.full_sort_predict(batch).view(len(items), -1).float()
    except KeyError as error:
        raise _refused(model, f"its scores need {error} besides the history") from error
    return scores


def tolerance(scores: Tensor) -> float:
    """The difference that float rounding may make."""
    return TOLERANCE * scores.abs().max().item()


@torch.no_grad()
def item_vectors(encoder: HistoryEncoder) -> Tensor:
    """The item embeddings without padding, ``[V, d]``, whose inner products with user vectors are the scores.

    Raises:
        ExportError: the scores are something else, or are not finite.
    """
    model = encoder.model
    table = getattr(model, "item_embedding", None)
    if not isinstance(table, nn.Embedding):
        raise _refused(model, "it has no item embedding of its own to take inner products with")
    if table.num_embeddings != model.n_items:
        raise _refused(
            model,
            f"it has {table.num_embeddings:,} item embeddings for {model.n_items - 1:,} items and padding",
        )
    items = random_histories(model.n_items - 1, encoder.max_length, check_count(model.n_items))
    scores = full_scores(model, items)
    users = encoder(items)
    if users.shape != (len(items), table.embedding_dim):
        raise _refused(
            model,
            f"it encodes a history as {tuple(users.shape[1:])}, not as a vector of {table.embedding_dim}",
        )
    if not scores[:, 1:].isfinite().all():
        raise _refused(model, "its scores are not finite")
    difference = (users @ table.weight.T - scores)[:, 1:].abs().max().item()
    if difference > tolerance(scores[:, 1:]):
        raise _refused(
            model,
            "its scores are not the inner products of the encoded history and the item embeddings "
            f"(they differ by up to {difference:.2g})",
        )
    return table.weight[1:].detach().float()


@torch.no_grad()
def is_padding_invariant(encoder: HistoryEncoder, num_items: int) -> bool:
    """Whether histories may be cut to the longest of a batch: padding to L gives the same vectors."""
    items = random_histories(num_items, encoder.max_length, 64)
    whole, length = encoder(items), (items != 0).sum(1)
    for width in {1, (encoder.max_length + 2) // 3, max(1, encoder.max_length - 1)}:
        short = length <= width
        if not short.any():
            continue
        try:
            trimmed = encoder(items[short, :width])
        except (RuntimeError, IndexError):  # a layer of fixed width
            return False
        if not torch.allclose(trimmed, whole[short], atol=1e-5, rtol=1e-4):
            return False
    return True
