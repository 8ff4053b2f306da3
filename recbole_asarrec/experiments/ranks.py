"""Where every user's test item lands, by both protocols, from one pass over the test data."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from recbole_asarrec.experiments.significance import per_user


class Ranked(NamedTuple):
    """Ranks by protocol, counted from 1, and whose they are; all ordered by user token, ``[U]``."""

    ranks: dict[str, np.ndarray]
    users: np.ndarray

    @property
    def fingerprint(self) -> str:
        """A hash of the users in their order."""
        return hashlib.sha256("\n".join(self.users).encode()).hexdigest()[:16]


def rank_targets(scores: Tensor, targets: Tensor, seen: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The rank of each row's target among all items, and among those its user has not interacted with.

    Args:
        scores: ``[B, n_items]``; item 0 is padding and ranks nowhere.
        targets: ``[B]``.
        seen: row and item of what users have interacted with, ``[S], [S]``; a target among them still counts.

    Returns:
        Two ranks counted from 1, both ``[B]``. An item with the very score of the target ranks behind it.
    """
    rows = torch.arange(len(targets), device=scores.device)
    level = scores[rows, targets]  # [B]
    above = scores > level[:, None]  # [B, n_items]
    above[:, 0] = False
    everywhere = above.sum(1)
    above[seen[0].to(scores.device), seen[1].to(scores.device)] = False
    return everywhere + 1, above.sum(1) + 1


@torch.no_grad()
def rank_test_items(model: Any, loader: Any, show_progress: bool = False) -> Ranked:
    """Rank the target of every row of a full-ranking loader.

    Args:
        model: a RecBole sequential recommender with the weights to test.
        loader: RecBole's or this package's loader for full ranking.
        show_progress: show a progress bar.
    """
    dataset, device = loader._dataset, next(model.parameters()).device
    model.eval()
    gave, loader.gives_history = getattr(loader, "gives_history", None), True
    users, ranks = [], []
    try:
        for batch, seen, _, targets in tqdm(loader, desc="Rank", disable=not show_progress):
            scores = model.full_sort_predict(batch.to(device)).view(len(batch), -1)
            ranks.append(torch.stack(rank_targets(scores, targets.to(device), seen), 1).cpu().numpy())
            users.append(batch[dataset.uid_field].cpu().numpy())
    finally:
        if gave is None:
            del loader.gives_history
        else:
            loader.gives_history = gave
    tokens = np.asarray(dataset.id2token(dataset.uid_field, np.concatenate(users)), dtype=str)
    order = np.argsort(tokens, kind="stable")
    found = np.concatenate(ranks)[order]  # [U, 2]
    return Ranked({"all_items": found[:, 0], "unseen_items": found[:, 1]}, tokens[order])


def metrics(ranks: np.ndarray, topk: list[int]) -> dict[str, float]:
    """HR@k and NDCG@k of one target a user, by RecBole's names, ``[U] → {"hit@10": …, "ndcg@10": …}``."""
    names = [f"{kind}@{k}" for kind in ("hit", "ndcg") for k in topk]
    return {name: float(per_user(ranks, name).mean()) for name in names}
