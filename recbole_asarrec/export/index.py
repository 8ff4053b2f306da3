"""An index for approximate search, and how much of exact search it finds."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from tqdm import tqdm

from recbole_asarrec.serving.ann import AnnIndex, load_faiss
from recbole_asarrec.serving.exact import top_k

QUERIES = 1000  # random histories that recall is measured on
K = 10
ENOUGH = 0.99  # recall that the search is tuned to
_LINKS, _EF_CONSTRUCTION, _MOST_EF = 32, 200, 2048
_ROWS = 10_000  # added between two steps of the progress bar


def build(vectors: np.ndarray) -> Any:
    """FAISS' HNSW index over item vectors ``[V, d]``, by inner product."""
    faiss = load_faiss()
    index = faiss.IndexHNSWFlat(vectors.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _EF_CONSTRUCTION
    with tqdm(total=len(vectors), unit=" items", desc="index", disable=not sys.stderr.isatty()) as bar:
        for start in range(0, len(vectors), _ROWS):
            index.add(vectors[start : start + _ROWS])
            bar.update(len(vectors[start : start + _ROWS]))
    return index


def tune(index: Any, vectors: np.ndarray, users: np.ndarray) -> dict[str, Any]:
    """Widen the search until it finds enough of the exact top 10.

    Args:
        index: what :func:`build` made.
        vectors: item vectors, ``[V, d]``.
        users: user vectors to search for, ``[Q, d]``.

    Returns:
        What ``model.json`` says of the index, its recall among it.
    """
    k = min(K, len(vectors))
    _, exact = top_k(users, vectors, k)
    ef_search = 32
    while True:
        _, found = AnnIndex(index, ef_search).search(users, k)
        recall = recall_of(found, exact)
        if recall >= ENOUGH or ef_search >= _MOST_EF:
            break
        ef_search *= 2
    return {
        "kind": "HNSW",
        "library": f"faiss {load_faiss().__version__}",
        "links": _LINKS,
        "ef_construction": _EF_CONSTRUCTION,
        "ef_search": ef_search,
        "recall": {"value": round(recall, 4), "k": k, "queries": len(users), "of": "random histories"},
    }


def recall_of(found: np.ndarray, exact: np.ndarray) -> float:
    """The share of the exact rows ``[Q, k]`` that are among the found ones."""
    hits = sum(len(np.intersect1d(one, other)) for one, other in zip(found, exact))
    return hits / exact.size
