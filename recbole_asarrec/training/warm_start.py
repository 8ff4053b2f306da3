"""Training that starts from a checkpoint of the same model on a dataset that has grown since.

Items are found again by their tokens. Those that both know keep their vectors, new ones start near the known
items they occur with, and those that are gone are dropped. All other weights are taken over where they fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from logging import getLogger
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from recbole_asarrec.data import count_cooccurrences
from recbole_asarrec.errors import CheckpointError, ConfigError
from recbole_asarrec.training import checkpoint

_TABLE = "item_embedding.weight"


class WarmStart(NamedTuple):
    """What a model took over from a checkpoint.

    Attributes:
        path: the checkpoint.
        kept: items that both know.
        near: new items that start near known ones.
        random: new items that occur with no known one in training, and start as the model starts them.
        dropped: items of the checkpoint that the dataset has no more.
        unfit: other weights that start as the model starts them, with the reason.
    """

    path: str
    kept: int
    near: int
    random: int
    dropped: int
    unfit: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"Warm start from {self.path}: {self.kept:,} items kept, {self.near:,} new by co-occurrence, "
            f"{self.random:,} new at random, {self.dropped:,} dropped"
        )


def read_source(config: Any) -> dict[str, Any] | None:
    """The checkpoint that the key ``warm_start`` names, if it names one.

    Raises:
        CheckpointError: it is no checkpoint of this model.
        ConfigError: this model cannot be started so.
    """
    path = config["warm_start"]
    if not path:
        return None
    if config["MODEL_TYPE"].name != "SEQUENTIAL":
        raise ConfigError(f"The key warm_start is for sequential models, and {config['model']} is none.")
    state = checkpoint.read(path, trust=bool(config["trust_checkpoint"]))
    if "fingerprint" in state:
        raise CheckpointError(
            f"'{path}' is what an unfinished run resumes from; finish that run with --resume, or start from "
            "its .pth file."
        )
    checkpoint.item_tokens(state, path)
    made_for = state["config"]["model"]
    if made_for.lower() != config["model"].lower():
        raise CheckpointError(
            f"The checkpoint '{path}' is of {made_for}, not of {config['model']}; use --model={made_for}."
        )
    return state


def warm_start(trainer: Any, dataset: Any) -> WarmStart | None:
    """Give a trainer's model the weights that its configuration names, once and before the first epoch.

    Args:
        trainer: RecBole's or this package's, that has not trained yet.
        dataset: its training rows.

    Returns:
        What was taken over; nothing where nothing is asked for, or training has begun.
    """
    if hasattr(trainer, "warm_start") or trainer.start_epoch:
        return None
    state = read_source(trainer.config)
    trainer.warm_start = None
    if state is not None:
        trainer.warm_start = take_over(trainer.model, dataset, state, trainer.config["warm_start"])
        if getattr(trainer, "ema", None) is not None:
            trainer.ema.restart()
        getLogger().info(trainer.warm_start)
        if trainer.warm_start.unfit:
            getLogger().warning(f"Weights that do not fit start anew: {', '.join(trainer.warm_start.unfit)}.")
    return trainer.warm_start


@torch.no_grad()
def take_over(model: Any, dataset: Any, state: Mapping[str, Any], path: str) -> WarmStart:
    """Put a checkpoint's weights into a model with other items, in place.

    Args:
        model: as it starts.
        dataset: its training rows.
        state: what :func:`read_source` has read.
        path: where from, for messages.

    Raises:
        CheckpointError: the vectors have another size, or there is no item in common.
    """
    weights: Mapping[str, Tensor] = state["state_dict"]
    tokens = checkpoint.item_tokens(state, path)
    table, old = _tables(model, weights, tokens, path)
    names = [str(token) for token in dataset.field2id_token[dataset.iid_field]]
    before = {token: index for index, token in enumerate(tokens) if index}
    source = torch.tensor([before.get(name, 0) for name in names])  # [V], 0 for what is new
    known = source > 0
    if not known.any():
        raise CheckpointError(
            f"The checkpoint '{path}' and the dataset have no item in common; is it the right dataset?"
        )
    vectors = table.cpu().clone()
    vectors[known] = old[source[known]]
    vectors[0] = old[0]
    placed = _place_new(vectors, known, dataset)
    table.copy_(vectors)
    return WarmStart(
        path=str(path),
        kept=int(known.sum()),
        near=placed,
        random=len(names) - 1 - int(known.sum()) - placed,
        dropped=len(before) - int(known.sum()),
        unfit=_take_rest(model, weights),
    )


def _tables(
    model: Any, weights: Mapping[str, Tensor], tokens: Sequence[str], path: str
) -> tuple[Tensor, Tensor]:
    """The item vectors of the model and of the checkpoint, ``[V, d]`` and ``[V', d]``."""
    name = type(model).__name__
    module = getattr(model, "item_embedding", None)
    if not isinstance(module, nn.Embedding) or module.num_embeddings != model.n_items:
        raise ConfigError(
            f"{name} cannot be started from a checkpoint: it has no item_embedding with a row for each item."
        )
    old = weights.get(_TABLE)
    if old is None or old.ndim != 2 or len(old) != len(tokens):
        raise CheckpointError(
            f"The checkpoint '{path}' has no vector for each of its {len(tokens) - 1} items."
        )
    if old.size(1) != module.embedding_dim:
        raise CheckpointError(
            f"The checkpoint '{path}' has item vectors of size {old.size(1)}, and this {name} of size "
            f"{module.embedding_dim}; set hidden_size or embedding_size to what it was trained with."
        )
    return module.weight, old.float().cpu()


def _place_new(vectors: Tensor, known: Tensor, dataset: Any) -> int:
    """Start new items where the known ones lie that they occur with in training, in place.

    A vector is the mean of theirs, weighted by co-occurrence, at the known items' mean length.

    Args:
        vectors: of all items, ``[V, d]``.
        known: which are known, ``[V]``.
        dataset: training rows.

    Returns:
        How many items were placed.
    """
    new = (~known).nonzero().flatten()[1:]  # without padding
    if not len(new):
        return 0
    old = known.nonzero().flatten()
    together = count_cooccurrences(dataset)[new.numpy()][:, old.numpy()]  # [new, old]
    mean = torch.from_numpy(np.asarray(together @ vectors[old].numpy(), dtype=np.float32))  # [new, d]
    length = mean.norm(dim=1, keepdim=True)
    placed = length.squeeze(1) > 0
    usual = vectors[old].norm(dim=1).mean()
    vectors[new[placed]] = mean[placed] / length[placed] * usual
    return int(placed.sum())


def _take_rest(model: nn.Module, weights: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Copy every other weight that fits, in place; the names of those that do not, with the reason."""
    unfit = []
    tables = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Embedding)}
    for name, own in model.state_dict().items():
        if name == _TABLE:
            continue
        if name not in weights:
            unfit.append(f"{name} (not in the checkpoint)")
        elif name in tables and ("user" in name or "item" in name):
            unfit.append(f"{name} (its rows are of other users or items)")
        elif weights[name].shape != own.shape:
            unfit.append(f"{name} ({tuple(weights[name].shape)} there, {tuple(own.shape)} here)")
        else:
            own.copy_(weights[name])
    return tuple(unfit)
