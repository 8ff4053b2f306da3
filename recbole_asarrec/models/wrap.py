"""Any RecBole sequential model with a learned augmenter: ``asar(NARM)``, or ``--model=AsarNARM``."""

from __future__ import annotations

import inspect

from recbole.model.abstract_recommender import SequentialRecommender

from recbole_asarrec.errors import ConfigError
from recbole_asarrec.models.asarrec import Asar

# what cannot be seen from outside
_REFUSED = {
    "BERT4Rec": "it predicts masked items of prepared sequences, not the item after a history",
    "S3Rec": "it is trained in two stages, the first on masked sequences",
}


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
    made = {"backbone": backbone, "_asks_for_length": len(takes) == 2, "__doc__": documentation}
    return type(f"Asar{name}", (Asar, backbone), made)
