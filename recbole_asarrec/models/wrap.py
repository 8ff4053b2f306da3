"""Any RecBole sequential model with a learned augmenter: ``asar(NARM)``, or ``--model=AsarNARM``."""

from __future__ import annotations

import inspect

import torch
from recbole.model.abstract_recommender import SequentialRecommender
from torch import Tensor, nn

from recbole_asarrec.errors import ConfigError
from recbole_asarrec.models.asarrec import AsarRec, OnEmbed

# what cannot be seen from outside
_REFUSED = {
    "BERT4Rec": "it predicts masked items of prepared sequences, not the item after a history",
    "S3Rec": "it is trained in two stages, the first on masked sequences",
}


class WrappedAsarRec(AsarRec):
    """AsarRec over a backbone that is only known by its ``forward``.

    Attributes:
        takes_length: whether ``forward`` takes the histories' lengths.
    """

    takes_length = True

    def encode(
        self, items: Tensor, length: Tensor, *, every_position: bool = False, on_embed: OnEmbed | None = None
    ) -> Tensor:
        """The backbone's ``forward``, ``[B, n] → [B, d]``.

        A stock model gives no other access to its embeddings than a hook on ``item_embedding``.
        """
        handle = None
        if on_embed is not None:

            def apply(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
                return on_embed(output) if inputs[0] is items else None

            handle = self.item_embedding.register_forward_hook(apply)
        try:
            return self.forward(items, length) if self.takes_length else self.forward(items)
        finally:
            if handle is not None:
                handle.remove()

    @torch.no_grad()
    def check_backbone(self) -> None:
        """Encode a made-up history and see whether the augmenter's gradient would arrive.

        Raises:
            ConfigError: the backbone does not look its items up in ``item_embedding`` position by position,
                or does not end in one vector a history of the embedding's size.
        """
        name = self.backbone.__name__
        table = getattr(self, "item_embedding", None)
        if not isinstance(table, nn.Embedding):
            raise ConfigError(f"{name} cannot be augmented: it has no item embedding of its own.")
        items = torch.zeros(2, self.max_seq_length, dtype=torch.long)
        items[:, 0] = min(1, self.n_items - 1)
        seen: list[Tensor] = []

        def watch(embedded: Tensor) -> Tensor:
            seen.append(embedded)
            return embedded

        training = self.training
        try:
            encoded = self.eval().encode(items, torch.ones(2, dtype=torch.long), on_embed=watch)
        finally:
            self.train(training)
        if not seen:
            raise ConfigError(
                f"{name} cannot be augmented: it does not look up a history item by item in item_embedding."
            )
        if not isinstance(encoded, Tensor) or encoded.shape != (2, table.embedding_dim):
            found = tuple(encoded.shape[1:]) if isinstance(encoded, Tensor) else f"a {type(encoded).__name__}"
            raise ConfigError(
                f"{name} cannot be augmented: it encodes a history as {found}, not as one vector of "
                f"{table.embedding_dim}."
            )


def asar(backbone: type) -> type:
    """Make the Asar model of a RecBole backbone.

    Args:
        backbone: a ``SequentialRecommender`` that encodes ``item_seq`` (and ``item_seq_len``) through
            ``self.item_embedding`` to one vector a history.

    Returns:
        A class named ``Asar<Backbone>``. What cannot be told from the class is tried when it is built.

    Raises:
        ConfigError: naming the reason why this backbone cannot be augmented.
    """
    name = backbone.__name__
    if not issubclass(backbone, SequentialRecommender):
        raise ConfigError(f"{name} cannot be augmented: it is no sequential recommender.")
    if name in _REFUSED:
        raise ConfigError(f"{name} cannot be augmented: {_REFUSED[name]}.")
    takes = list(inspect.signature(backbone.forward).parameters)[1:]  # type: ignore[attr-defined]
    if takes[:1] != ["item_seq"] or len(takes) > 2 or takes[1:] not in ([], ["item_seq_len"]):
        raise ConfigError(
            f"{name} cannot be augmented: it encodes ({', '.join(takes)}) instead of a history of items."
        )
    documentation = f"RecBole's {name}, trained with learned views; inference is {name}'s."
    made = {"backbone": backbone, "takes_length": len(takes) == 2, "__doc__": documentation}
    return type(f"Asar{name}", (WrappedAsarRec, backbone), made)
