"""Approximate search by FAISS' graph index (HNSW), made by ``export --ann``."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from recbole_asarrec.errors import ExportError, UserError
from recbole_asarrec.serving.folder import INDEX, Manifest

_MOST_EF = 1 << 16


def load_faiss() -> Any:
    """The module ``faiss``.

    Raises:
        UserError: it is not installed; the sentence has the command.
    """
    try:
        return importlib.import_module("faiss")
    except ModuleNotFoundError as error:
        raise UserError("Approximate search needs FAISS. Run: pip install faiss-cpu") from error


class AnnIndex:
    """An index over the item vectors.

    Args:
        index: FAISS' own.
        ef_search: how many neighbours a search keeps in view; more is slower and finds more.
    """

    def __init__(self, index: Any, ef_search: int) -> None:
        self._index, self.ef_search = index, ef_search
        self._parameters = load_faiss().SearchParametersHNSW(efSearch=ef_search)

    @classmethod
    def open(cls, manifest: Manifest) -> AnnIndex:
        """The index of an exported folder.

        Raises:
            ExportError: there is none, or it does not fit the rest of the folder.
        """
        if not manifest.has(INDEX):
            raise ExportError(
                f"'{manifest.folder}' has no index for approximate search; export the model with --ann, "
                "or use search='exact'."
            )
        faiss, path = load_faiss(), manifest.folder / INDEX
        described = manifest.content.get("index")
        ef_search = described.get("ef_search") if isinstance(described, dict) else None
        if type(ef_search) is not int or not 1 <= ef_search <= _MOST_EF:
            raise ExportError(f"'{manifest.folder}': model.json must give the ef_search of the index.")
        try:
            index = faiss.deserialize_index(np.frombuffer(manifest.read(INDEX), dtype=np.uint8))
        except RuntimeError as error:  # FAISS' only kind
            raise ExportError(f"'{path}' is not an index that this release of FAISS can read.") from error
        fits = isinstance(index, faiss.IndexHNSWFlat) and index.metric_type == faiss.METRIC_INNER_PRODUCT
        if not fits or (index.ntotal, index.d) != (manifest.num_items, manifest.dim):
            raise ExportError(f"'{path}' is not an index of the item vectors in this folder.")
        return cls(index, ef_search)

    def search(self, users: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and rows of about the best items, best first, ``[B, k]``; −inf where fewer were found."""
        score, row = self._index.search(users, k, params=self._parameters)
        return np.where(row >= 0, score, -np.inf), row
