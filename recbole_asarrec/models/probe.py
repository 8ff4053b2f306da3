"""Whether a backbone can be augmented, tried on a made-up history."""

from __future__ import annotations

from typing import Any

import torch

from recbole_asarrec.errors import ConfigError


@torch.no_grad()
def refuse_what_cannot_be_augmented(model: Any) -> None:
    """Encode one made-up history and see whether the augmenter's gradient would find its way.

    Raises:
        ConfigError: the backbone does not look its items up in ``item_embedding`` place by place, or does not
            end in one vector a history of the embedding's size.
    """
    name = type(model).backbone.__name__
    table = getattr(model, "item_embedding", None)
    if not isinstance(table, torch.nn.Embedding):
        raise ConfigError(f"{name} cannot be augmented: it has no embedding of items of its own.")
    history = torch.zeros(2, model.max_seq_length, dtype=torch.long)
    history[:, 0] = min(1, model.n_items - 1)
    looked_up = []
    handle = table.register_forward_hook(
        lambda module, inputs, output: looked_up.append(inputs[0] is history)
    )
    training = model.training
    try:
        encoded = model.eval().encode(history, torch.ones(2, dtype=torch.long))
    finally:
        handle.remove()
        model.train(training)
    if not any(looked_up):
        raise ConfigError(
            f"{name} cannot be augmented: it does not look up a history place by place in item_embedding."
        )
    if encoded.shape != (2, table.embedding_dim):
        raise ConfigError(
            f"{name} cannot be augmented: it encodes a history as {tuple(encoded.shape[1:])}, "
            f"not as one vector of {table.embedding_dim}."
        )
