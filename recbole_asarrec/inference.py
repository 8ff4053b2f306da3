"""Recommendations from a checkpoint alone: raw item tokens in, raw tokens and scores out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from logging import getLogger
from typing import Any, NamedTuple

import torch
from recbole.data.interaction import Interaction

from recbole_asarrec.compat import restore_config
from recbole_asarrec.errors import CheckpointError, UserError
from recbole_asarrec.training import checkpoint as checkpoints


class Recommended(NamedTuple):
    """The best items for one history, best first.

    Attributes:
        items: raw item tokens.
        scores: the model's scores, in the same order.
    """

    items: list[str]
    scores: list[float]


class _Catalogue:
    """The little a sequential model asks of its dataset."""

    def __init__(self, config: Any, size: int) -> None:
        self._item_field, self._size = config["ITEM_ID_FIELD"], size
        self.field2seqlen = {config["ITEM_ID_FIELD"] + config["LIST_SUFFIX"]: config["MAX_ITEM_LIST_LENGTH"]}

    def num(self, field: str) -> int:
        if field != self._item_field:
            raise AttributeError(f"the number of different {field}")
        return self._size


class Recommender:
    """A trained sequential model, ready for users it has never seen.

    Args:
        checkpoint: a ``.pth`` file saved by a run through this package, stock models included.
        device: where to compute; the GPU RecBole would take, else the CPU, by default.
        trust_checkpoint: load a file that runs code when opened.

    Raises:
        CheckpointError: the file is unreadable, unsafe, or lacks its item tokens.
    """

    def __init__(
        self, checkpoint: str | os.PathLike[str], device: str | None = None, trust_checkpoint: bool = False
    ) -> None:
        state = checkpoints.read(checkpoint, trust=trust_checkpoint)
        tokens = state.get("item_tokens")
        named = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
        if not tokens or not named or not isinstance(state["config"], dict):
            raise CheckpointError(
                f"The checkpoint '{checkpoint}' does not name its items; "
                "train it through recbole_asarrec, which stores them."
            )
        config = restore_config(state["config"])
        try:
            self.device = torch.device(device) if device else config["device"]
        except RuntimeError as error:
            raise UserError(f"There is no device '{device}'; take cpu, cuda or cuda:0.") from error
        config["device"] = self.device
        try:
            model = config.model_class(config, _Catalogue(config, len(tokens)))
            self._items, self._lengths = model.ITEM_SEQ, model.ITEM_SEQ_LEN
        except UserError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{config['model']} cannot be built without its dataset ({error}); "
                "use RecBole's load_data_and_model."
            ) from error
        checkpoints.load_into(model, state, checkpoint)
        self.model = model.to(self.device).eval()
        self.tokens: list[str] = tokens
        self.ids = {token: index for index, token in enumerate(tokens) if index}
        self.max_length: int = config["MAX_ITEM_LIST_LENGTH"]

    def stream(
        self,
        histories: Iterable[Sequence[str]],
        k: int = 10,
        exclude_history: bool = False,
        unknown: str = "skip",
        batch_size: int = 512,
    ) -> Iterator[Recommended]:
        """Recommend for one history after another, holding one batch in memory.

        Args:
            histories: each a sequence of item tokens, oldest first.
            k: how many items a history gets, fewer where the catalogue has fewer.
            exclude_history: leave out what is in the history.
            unknown: ``skip`` items that training never saw, with one warning that counts them, or
                ``refuse`` them.
            batch_size: histories scored at once.

        Yields:
            A :class:`Recommended` per history; an empty one where no known item is left.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise UserError(f"k must be a whole number from 1 on, but is {k!r}.")
        if unknown not in ("skip", "refuse"):
            raise UserError(f"unknown must be 'skip' or 'refuse', but is {unknown!r}.")
        skipped = empty = 0
        source = iter(histories)
        while batch := list(islice(source, batch_size)):
            known = [self._known(history, unknown) for history in batch]
            skipped += sum(len(history) - len(ids) for history, ids in zip(batch, known))
            empty += sum(not ids for ids in known)
            best = iter(self._best([ids for ids in known if ids], k, exclude_history))
            for ids in known:
                yield next(best) if ids else Recommended([], [])
        if skipped or empty:
            getLogger().warning(
                f"{skipped} items that training never saw were skipped; "
                f"{empty} histories had no known item and got no recommendation."
            )

    def _known(self, history: Sequence[str], unknown: str) -> list[int]:
        if isinstance(history, str):
            raise UserError(f"A history must be a list of item tokens, not the string {history!r}.")
        if unknown == "refuse":
            for token in history:
                if str(token) not in self.ids:
                    raise UserError(f"The item {token!r} is not in the catalogue the model was trained on.")
        return [self.ids[str(token)] for token in history if str(token) in self.ids]

    @torch.no_grad()
    def _best(self, histories: list[list[int]], k: int, exclude_history: bool) -> list[Recommended]:
        if not histories:
            return []
        recent = [torch.tensor(ids[-self.max_length :]) for ids in histories]
        rows = torch.zeros(len(recent), self.max_length, dtype=torch.long)
        for row, ids in zip(rows, recent):
            row[: len(ids)] = ids
        lengths = torch.tensor([len(ids) for ids in recent])
        batch = Interaction({self._items: rows, self._lengths: lengths}).to(self.device)
        scores = self.model.full_sort_predict(batch).view(len(recent), -1).float()  # [B, items]
        scores[:, 0] = -torch.inf
        if exclude_history:
            for number, seen in enumerate(histories):
                scores[number, seen] = -torch.inf
        value, item = (part.cpu() for part in scores.topk(min(k, scores.size(1)), dim=1))
        found = [int(row.isfinite().sum()) for row in value]
        return [
            Recommended([self.tokens[i] for i in ids[:n].tolist()], numbers[:n].tolist())
            for ids, numbers, n in zip(item, value, found)
        ]


def recommend(
    checkpoint: str | os.PathLike[str], histories: Iterable[Sequence[str]], k: int = 10, **options: Any
) -> list[Recommended]:
    """Recommend ``k`` items for each history with a saved model.

    Args:
        checkpoint: see :class:`Recommender`.
        histories: see :meth:`Recommender.stream`, as is ``k`` and every other option.

    Example:
        >>> recommend("saved/AsarSASRec.pth", [["242", "302", "377"]], k=3)  # doctest: +SKIP
        [Recommended(items=['286', '258', '288'], scores=[7.1, 6.9, 6.5])]
    """
    return list(Recommender(checkpoint).stream(histories, k, **options))
