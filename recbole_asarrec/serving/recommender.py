"""Recommendations from an exported folder: raw item tokens in, raw tokens and scores out."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from recbole_asarrec.errors import ExportError, UserError
from recbole_asarrec.serving.ann import AnnIndex
from recbole_asarrec.serving.exact import top_k
from recbole_asarrec.serving.folder import (
    ENCODER,
    INDEX,
    Manifest,
    read_manifest,
    read_tokens,
    read_vectors,
)
from recbole_asarrec.serving.histories import check_options, known_ids, warn_of_skipped

_RESULTS = 1 << 22  # scores and rows held at once, whatever k


class Recommended(NamedTuple):
    """The best items for one history, best first.

    Attributes:
        items: raw item tokens.
        scores: the model's scores, in the same order.
    """

    items: list[str]
    scores: list[float]


class Encoder:
    """``encoder.onnx`` in ONNX Runtime: histories of item ids to user vectors.

    Args:
        graph: the file's content.
        dim: d, the size of a user vector.
        threads: of one call; all cores by default.

    Raises:
        ExportError: it is not the graph of an encoder.
        UserError: ONNX Runtime is not installed.
    """

    def __init__(self, graph: bytes, dim: int, threads: int | None = None) -> None:
        try:
            ort = importlib.import_module("onnxruntime")
        except ModuleNotFoundError as error:
            raise UserError("An exported model needs ONNX Runtime. Run: pip install onnxruntime") from error
        options = ort.SessionOptions()
        options.log_severity_level = 4  # what goes wrong is raised
        options.intra_op_num_threads = threads or 0
        # a graph may name other files for its weights; ours never does, so there is nowhere to find them
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
        try:
            self._session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its classes differ between releases
            raise ExportError(f"{ENCODER} cannot be opened by ONNX Runtime: {_first_line(error)}") from error
        taken, given = self._session.get_inputs(), self._session.get_outputs()
        kinds = [(one.type, len(one.shape)) for one in (*taken, *given)]
        if kinds != [("tensor(int64)", 2), ("tensor(float)", 2)]:
            raise _other_graph(dim)
        self._input, self._dim = taken[0].name, dim

    def __call__(self, histories: np.ndarray) -> np.ndarray:
        """``[B, n] → [B, d]``; ids on the left, 0 after them."""
        (users,) = self._session.run(None, {self._input: histories})
        if users.shape != (len(histories), self._dim):
            raise _other_graph(self._dim)
        return np.ascontiguousarray(users, dtype=np.float32)


def _other_graph(dim: int) -> ExportError:
    return ExportError(f"{ENCODER} must take int64 ids [B, n] and give float vectors [B, {dim}].")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


class Recommender:
    """An exported model, ready for users it has never seen. Calls from several threads at once are fine.

    Args:
        folder: what ``recbole-asarrec export`` wrote. Every file is compared with its checksum.
        search: ``exact``, or ``ann`` for the index of an export with ``--ann``.
        threads: of the encoder; all cores by default. A server with several workers takes 1.

    Attributes:
        info: the content of ``model.json``: the model, its settings, metrics and versions.
        max_length: items of a history that count, the newest ones.

    Raises:
        ExportError: the folder is incomplete, changed or unsafe.
        UserError: ONNX Runtime or, for ``ann``, FAISS is not installed.

    Example:
        >>> model = Recommender("exported")  # doctest: +SKIP
        >>> model.recommend([["242", "302", "377"]], k=3)  # doctest: +SKIP
        [Recommended(items=['286', '258', '288'], scores=[7.1, 6.9, 6.5])]
    """

    def __init__(
        self, folder: str | os.PathLike[str], search: str = "exact", threads: int | None = None
    ) -> None:
        if search not in ("exact", "ann"):
            raise UserError(f"search must be 'exact' or 'ann', but is {search!r}.")
        if threads is not None and (type(threads) is not int or threads < 1):
            raise UserError(f"threads must be a whole number from 1 on, but is {threads!r}.")
        manifest = read_manifest(folder)
        self.info: dict[str, Any] = manifest.content
        self.max_length = manifest.max_length
        self._tokens = read_tokens(manifest)
        self._ids = {token: line for line, token in enumerate(self._tokens, 1)}
        self._items = read_vectors(manifest)  # [V, d]
        self._encode = Encoder(manifest.read(ENCODER), manifest.dim, threads)
        self._index = self._open_index(manifest, search)

    @staticmethod
    def _open_index(manifest: Manifest, search: str) -> AnnIndex | None:
        if search == "ann":
            return AnnIndex.open(manifest)
        if manifest.has(INDEX):
            manifest.check(INDEX)
        return None

    def __len__(self) -> int:
        """Items of the catalogue."""
        return len(self._tokens)

    def __contains__(self, item: object) -> bool:
        """Whether an item token is in the catalogue."""
        return str(item) in self._ids

    def recommend(
        self,
        histories: Iterable[Sequence[str]],
        k: int = 10,
        exclude_history: bool = False,
        unknown: str = "skip",
        batch_size: int = 512,
    ) -> list[Recommended]:
        """Recommend ``k`` items for each history; see :meth:`stream`."""
        return list(self.stream(histories, k, exclude_history, unknown, batch_size))

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
            batch_size: histories encoded at once.

        Yields:
            A :class:`Recommended` per history; an empty one where no known item is left.
        """
        check_options(k, unknown, batch_size=batch_size)
        k = min(k, len(self))
        batch_size = min(batch_size, max(1, _RESULTS // k))
        skipped = empty = 0
        source = iter(histories)
        while batch := list(islice(source, batch_size)):
            known = [known_ids(history, self._ids, unknown) for history in batch]
            skipped += sum(len(history) - len(ids) for history, ids in zip(batch, known))
            empty += sum(not ids for ids in known)
            best = iter(self._best([ids for ids in known if ids], k, exclude_history))
            for ids in known:
                yield next(best) if ids else Recommended([], [])
        warn_of_skipped(skipped, empty)

    def _best(self, histories: list[list[int]], k: int, exclude_history: bool) -> list[Recommended]:
        if not histories:
            return []
        recent = [ids[-self.max_length :] for ids in histories]
        rows = np.zeros((len(recent), max(map(len, recent))), dtype=np.int64)  # [B, n]
        for row, ids in zip(rows, recent):
            row[: len(ids)] = ids
        users = self._encode(rows)  # [B, d]
        excluded = [np.unique(ids) - 1 for ids in histories] if exclude_history else None
        score, item = self._search(users, k, excluded)
        found = np.isfinite(score).sum(axis=1)
        return [
            Recommended([self._tokens[i] for i in items[:n].tolist()], scores[:n].tolist())
            for items, scores, n in zip(item, score, found)
        ]

    def _search(
        self, users: np.ndarray, k: int, excluded: list[np.ndarray] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and rows of the best items, ``[B, k]``."""
        wanted = k + max(map(len, excluded)) if excluded else k
        if self._index is None or wanted > len(self) // 2:  # most of the catalogue: the index would not help
            return top_k(users, self._items, k, excluded)
        score, row = self._index.search(users, wanted)  # [B, wanted]
        if excluded:
            for scores, rows, out in zip(score, row, excluded):
                scores[np.isin(rows, out)] = -np.inf
            order = np.argsort(-score, axis=1, kind="stable")
            score, row = (np.take_along_axis(part, order, axis=1) for part in (score, row))
        score, row = score[:, :k], row[:, :k]
        short = np.flatnonzero(~np.isfinite(score).all(axis=1))  # the index found too few
        if len(short):
            left_out = [excluded[user] for user in short] if excluded else None
            score[short], row[short] = top_k(users[short], self._items, k, left_out)
        return score, row
