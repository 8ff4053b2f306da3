"""Co-occurrence initialization: item embeddings start from which items occur together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from logging import getLogger
from typing import Any

import torch
from torch import nn

from recbole_asarrec.data import cooccurrence_vectors, count_cooccurrences

_needed: ContextVar[bool] = ContextVar("needed", default=True)


@contextmanager
def skip_item_init() -> Iterator[None]:
    """Models made inside get their weights elsewhere, so no start is computed: a minute at 20 M rows."""
    token = _needed.set(False)
    try:
        yield
    finally:
        _needed.reset(token)


@torch.no_grad()
def cooccurrence_init_(embedding: nn.Embedding, dataset: Any) -> None:
    """Start items that occur together in training close to each other.

    Items without co-occurrences keep their start, and so does padding. A mere catalogue, as
    :mod:`recbole_asarrec.inference` makes, has no interactions, and :func:`skip_item_init` skips it all.

    Args:
        embedding: of V items, ``[V, d]``, as the backbone starts it; changed in place.
        dataset: training rows.
    """
    if not _needed.get() or getattr(dataset, "inter_feat", None) is None:
        return
    weight = embedding.weight
    size = embedding.embedding_dim
    vectors = torch.from_numpy(cooccurrence_vectors(count_cooccurrences(dataset), size))  # [V, d]
    known = vectors.any(1)
    known[0] = False
    getLogger().info(f"{int(known.sum())} of {len(known) - 1} items start near those they occur with.")
    # turned at random: singular vectors would have most of their length in the first positions
    turned = vectors[known] @ torch.linalg.qr(torch.randn(size, size)).Q
    length = weight[1:].std() * size**0.5  # of a vector that spreads as the backbone's own start does
    weight[known.to(weight.device)] = turned.to(weight) * length
