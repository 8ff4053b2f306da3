"""Exact search: the best items of all, one block of the catalogue after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_SCORES = 1 << 22  # held at once: 16 MiB


def top_k(
    users: np.ndarray, items: np.ndarray, k: int, excluded: Sequence[np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The k items with the largest inner product, best first; of equal ones that with the lower row.

    Memory does not grow with the catalogue.

    Args:
        users: user vectors, ``[B, d]``.
        items: item vectors, ``[V, d]``.
        k: how many, at most V.
        excluded: rows of ``items`` that each user does not get.

    Returns:
        Scores and rows of ``items``, both ``[B, k]``; where fewer than k are left, the score is −inf.
    """
    number, width = len(users), max(_SCORES // max(len(users), 1), k)
    masked_user, masked_row = _flat(excluded)
    best_score = np.full((number, k), -np.inf, dtype=np.float32)
    best_row = np.zeros((number, k), dtype=np.int64)
    for start in range(0, len(items), width):
        scores = users @ items[start : start + width].T  # [B, width]
        first, last = np.searchsorted(masked_row, (start, start + width))
        scores[masked_user[first:last], masked_row[first:last] - start] = -np.inf
        if start == 0 and scores.shape[1] > k:  # or nearly all of the block would be candidates
            best_score, best_row = _first(scores, k)
        else:
            best_score, best_row = _merge(best_score, best_row, scores, start)
    order = np.lexsort((best_row, -best_score), axis=1)
    return np.take_along_axis(best_score, order, axis=1), np.take_along_axis(best_row, order, axis=1)


def _flat(excluded: Sequence[np.ndarray] | None) -> tuple[np.ndarray, np.ndarray]:
    """Users and rows to leave out, by row, ``[E]`` each."""
    if not excluded:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    user = np.repeat(np.arange(len(excluded)), [len(rows) for rows in excluded])
    row = np.concatenate(excluded)
    order = np.argsort(row, kind="stable")
    return user[order], row[order]


def _first(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The best k of a block ``[B, width]``, in any order, with their columns."""
    column = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    best = np.take_along_axis(scores, column, axis=1)
    least = best.min(axis=1, keepdims=True)
    # which of equal scores a partition keeps depends on the CPU
    tied = (scores == least).sum(axis=1) > (best == least).sum(axis=1)
    column[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, column, axis=1), column


def _merge(
    best_score: np.ndarray, best_row: np.ndarray, scores: np.ndarray, start: int
) -> tuple[np.ndarray, np.ndarray]:
    """The best k of those so far, ``[B, k]``, and of a block that begins at row ``start``."""
    k = best_score.shape[1]
    user, column = np.nonzero(
        scores > best_score.min(axis=1, keepdims=True)
    )  # few once k good ones are known
    count = np.bincount(user, minlength=len(scores))
    slot = k + np.arange(len(user)) - np.repeat(np.cumsum(count) - count, count)
    score = np.full((len(scores), k + count.max(initial=0)), -np.inf, dtype=np.float32)
    row = np.zeros(score.shape, dtype=np.int64)
    score[:, :k], row[:, :k] = best_score, best_row
    score[user, slot], row[user, slot] = scores[user, column], column + start
    chosen = np.lexsort((row, -score), axis=1)[:, :k]
    return np.take_along_axis(score, chosen, axis=1), np.take_along_axis(row, chosen, axis=1)
