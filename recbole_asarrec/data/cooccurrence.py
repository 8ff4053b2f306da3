"""Initial item embeddings from co-occurrence: items that follow each other closely start close together.

From a random start a model has to learn which items belong together, and for a rare one it hardly does.
The leading singular vectors of the items' co-occurrence tell it before the first step (word2vec approximates
such a factorisation: Levy and Goldberg 2014). They are computed from training rows alone, and are only a
start: all of it is trained further.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from recbole_asarrec.data.rows import START, Rows

_WINDOW = 10  # items further apart are not counted together
_PAIRS = 20_000_000  # more pairs than these narrow the window: they are held in memory
_FLAT = 1e-6  # singular values and vectors below this share of the first are rounding


def count_cooccurrences(dataset: Any, window: int = _WINDOW) -> sparse.csr_matrix:
    """How often two items occur together in training, ``[V, V]``, symmetric.

    Items d apart count 1/d. Each pair of a history is met once, where its later item is the target.

    Args:
        dataset: training rows; item 0 is padding.
        window: how far apart items may be.
    """
    rows, size = dataset.inter_feat, dataset.item_num
    length, target = (rows[name].numpy() for name in (dataset.item_list_length_field, dataset.iid_field))
    window = min(window, max(1, _PAIRS // max(len(target), 1)))
    earlier, later, weight = [], [], []
    for apart in range(1, window + 1):
        has = np.flatnonzero(length >= apart)
        earlier.append(_items_before(rows, dataset.item_id_list_field, length, has, apart))
        later.append(target[has])
        weight.append(np.full(len(has), 1 / apart, dtype=np.float32))
    pairs = (np.concatenate(weight), (np.concatenate(earlier), np.concatenate(later)))
    counted = sparse.csr_matrix(pairs, shape=(size, size))
    counted = (counted + counted.T).tocsr()
    counted.setdiag(0)  # that an item comes again says nothing of other items
    counted.eliminate_zeros()
    return counted


def _items_before(rows: Any, field: str, length: np.ndarray, has: np.ndarray, apart: int) -> np.ndarray:
    """The items ``apart`` positions before the targets of the rows ``has``, ``[len(has)]``."""
    if isinstance(rows, Rows):
        position = rows[START].numpy()[has] + length[has] - apart
        return rows.histories.fields[field].numpy()[position]
    return rows[field].numpy()[has, length[has] - apart]


def cooccurrence_vectors(counted: sparse.csr_matrix, size: int) -> np.ndarray:
    """Unit vectors of items whose angles reflect co-occurrence.

    Args:
        counted: how often two items occur together, ``[V, V]``, symmetric.
        size: d.

    Returns:
        ``[V, d]``; zero for items of which the leading vectors tell nothing.
    """
    total = np.asarray(counted.sum(1)).ravel()  # [V]
    # an item that occurs twice as often is not twice as near; one more pair, so that a single one says little
    rarity = sparse.diags(1 / np.sqrt(total + 1))
    near = (rarity @ counted @ rarity).astype(np.float32)
    left, strength, _ = randomized_svd(near, min(size, len(total)), random_state=0)
    strength = np.where(strength > _FLAT * strength[0], strength, 0)
    vectors = np.zeros((len(total), size), dtype=np.float32)
    vectors[:, : len(strength)] = left * np.sqrt(strength)
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    known = (total[:, None] > 0) & (norm > _FLAT)  # what lies outside the leading vectors is rounding
    return np.where(known, vectors / np.where(known, norm, 1), 0)
