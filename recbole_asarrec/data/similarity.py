"""Which items are alike: item-based collaborative filtering with inverse user frequency.

The similarity of CoSeRec (Liu et al. 2021): two items are alike if the same users have them, users with long
histories counting less. It is computed from training rows alone.
"""

from __future__ import annotations

import hashlib
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from recbole_asarrec.files import atomic_write

_ITEMS_AT_ONCE = 4096


def item_neighbours(matrix: sparse.csr_matrix, top: int) -> np.ndarray:
    """The most similar items of each item, best first.

    Args:
        matrix: who has what, ``[users, items]``; item 0 is padding.
        top: how many to keep.

    Returns:
        Item ids, 0 where an item has fewer neighbours, ``[items, top]``.
    """
    has = sparse.csr_matrix((np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr), matrix.shape)
    has.sum_duplicates()
    has.data[:] = 1
    owned, owners = np.asarray(has.sum(1)).ravel(), np.asarray(has.sum(0)).ravel()
    weight = 1 / np.log1p(np.maximum(owned, 1))  # inverse user frequency
    rarity = 1 / np.sqrt(np.maximum(owners, 1))
    scaled = (sparse.diags(np.sqrt(weight)) @ has @ sparse.diags(rarity)).tocsc().astype(np.float32)
    found = np.zeros((has.shape[1], top), dtype=np.int64)
    for start in range(0, has.shape[1], _ITEMS_AT_ONCE):
        block = (scaled[:, start : start + _ITEMS_AT_ONCE].T @ scaled).tocoo()
        other = (block.col != block.row + start) & (block.col != 0) & (block.row + start != 0)
        row, column, score = block.row[other], block.col[other], block.data[other]
        order = np.lexsort((column, -score, row))  # by item, then the most similar, ties by id
        row, column = row[order], column[order]
        begins = np.flatnonzero(np.r_[True, row[1:] != row[:-1]]) if len(row) else np.zeros(0, int)
        rank = np.arange(len(row)) - np.repeat(begins, np.diff(np.r_[begins, len(row)]))
        kept = rank < top
        found[start + row[kept], rank[kept]] = column[kept]
    return found


def cached_neighbours(dataset: Any, top: int = 10) -> np.ndarray:
    """:func:`item_neighbours` of a training dataset, kept beside its atomic files where that is possible.

    The file's name holds a digest of the interactions, so other data, another split or noise never meet it.
    """
    matrix = dataset.inter_matrix("csr")
    matrix.sort_indices()
    digest = hashlib.sha256(repr((matrix.shape, top)).encode())
    digest.update(matrix.indptr.tobytes())
    digest.update(matrix.indices.tobytes())
    file = Path(dataset.dataset_path) / f"{dataset.dataset_name}.neighbours-{digest.hexdigest()[:16]}.npy"
    if file.is_file():
        try:
            kept: np.ndarray = np.load(file, allow_pickle=False)
            fits = kept.shape == (matrix.shape[1], top) and kept.dtype == np.int64
            if fits and ((kept >= 0) & (kept < matrix.shape[1])).all():
                return kept
        except (ValueError, OSError):
            pass  # a broken cache is made anew
    found = item_neighbours(matrix, top)
    try:
        with atomic_write(file, "wb") as sink:
            np.save(sink, found, allow_pickle=False)
    except OSError as error:
        getLogger().info(f"Item neighbours are not kept beside the data ({error}).")
    return found
