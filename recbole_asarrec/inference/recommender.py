"""Recommendations from a checkpoint alone: raw item tokens in, raw tokens and scores out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from recbole_asarrec.compat import restore_config
from recbole_asarrec.errors import CheckpointError, UserError
from recbole_asarrec.inference.scorer import Scorer
from recbole_asarrec.inference.topk import TopItems
from recbole_asarrec.inference.window import WINDOW
from recbole_asarrec.serving import Recommended
from recbole_asarrec.serving.histories import check_options, known_ids, warn_of_skipped
from recbole_asarrec.training import checkpoint as checkpoints


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
        mapped: map the weights from the file instead of reading them, so that processes share them.

    Raises:
        CheckpointError: the file is unreadable, unsafe, or lacks its item tokens.
    """

    def __init__(
        self,
        checkpoint: str | os.PathLike[str],
        device: str | None = None,
        trust_checkpoint: bool = False,
        mapped: bool = False,
    ) -> None:
        state = checkpoints.read(checkpoint, trust=trust_checkpoint, mapped=mapped)
        tokens = checkpoints.item_tokens(state, checkpoint)
        config = restore_config(state["config"])
        try:
            self.device = torch.device(device) if device else config["device"]
        except RuntimeError as error:
            raise UserError(f"There is no device '{device}'; take cpu, cuda or cuda:0.") from error
        config["device"] = self.device
        try:
            model = config.model_class(config, _Catalogue(config, len(tokens)))
        except UserError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{config['model']} cannot be built without its dataset ({error}); "
                "use RecBole's load_data_and_model."
            ) from error
        checkpoints.load_into(model, state, checkpoint, assign=mapped)
        self.model = model.to(self.device).eval()
        self.tokens: list[str] = tokens
        self.ids = {token: index for index, token in enumerate(tokens) if index}
        self.max_length: int = config["MAX_ITEM_LIST_LENGTH"]
        try:
            self._scorer = Scorer(self.model, self.max_length)
        except (IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{config['model']} cannot rank from a history of items alone ({error}); "
                "use RecBole's load_data_and_model."
            ) from error

    def stream(
        self,
        histories: Iterable[Sequence[str]],
        k: int = 10,
        exclude_history: bool = False,
        unknown: str = "skip",
        batch_size: int = WINDOW,
    ) -> Iterator[Recommended]:
        """Recommend for one history after another, holding one batch in memory.

        Args:
            histories: each a sequence of item tokens, oldest first.
            k: how many items a history gets, fewer where the catalogue has fewer.
            exclude_history: leave out what is in the history.
            unknown: ``skip`` items that training never saw, with one warning that counts them, or
                ``refuse`` them.
            batch_size: histories taken at once; inside, those of similar length are encoded together.

        Yields:
            A :class:`Recommended` per history; an empty one where no known item is left.
        """
        check_options(k, unknown)
        skipped = empty = 0
        source = iter(histories)
        while batch := list(islice(source, batch_size)):
            known = [self.known(history, unknown) for history in batch]
            skipped += sum(len(history) - len(ids) for history, ids in zip(batch, known))
            empty += sum(not ids for ids in known)
            best = self.best(known, k, exclude_history)
            for ids, scores, count in zip(best.items.tolist(), best.scores.tolist(), best.counts().tolist()):
                yield Recommended([self.tokens[i] for i in ids[:count]], scores[:count])
        warn_of_skipped(skipped, empty)

    def known(self, history: Sequence[str], unknown: str = "skip") -> list[int]:
        """The ids of a history's items, without those that training never saw."""
        return known_ids(history, self.ids, unknown)

    def best(self, histories: Sequence[Sequence[int]], k: int, exclude_history: bool = False) -> TopItems:
        """The best items of histories of ids, ``[B, min(k, V − 1)]``; none for an empty history."""
        rows = [row for row, ids in enumerate(histories) if ids]
        width = min(k, len(self.tokens) - 1)
        best = TopItems(
            torch.full((len(histories), width), -torch.inf),
            torch.zeros(len(histories), width, dtype=torch.long),
        )
        if rows:
            found = self._scorer.best([histories[row] for row in rows], k, exclude_history)
            best.scores[rows], best.items[rows] = found
        return best


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
