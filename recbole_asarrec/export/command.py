"""Exporting: check the model, write the folder, and open it again before it appears under its name."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from recbole_asarrec.environment import RECBOLE, installed
from recbole_asarrec.errors import ExportError
from recbole_asarrec.export import index as indexing
from recbole_asarrec.export import onnx_graph
from recbole_asarrec.export.encoder import (
    HistoryEncoder,
    check_count,
    is_padding_invariant,
    item_vectors,
    random_histories,
)
from recbole_asarrec.files import atomic_folder
from recbole_asarrec.inference import Recommender
from recbole_asarrec.serving import Recommender as ExportedRecommender
from recbole_asarrec.serving.ann import load_faiss
from recbole_asarrec.serving.folder import ENCODER, FORMAT, INDEX, MANIFEST, TOKENS, VECTORS, read_manifest
from recbole_asarrec.serving.recommender import Encoder
from recbole_asarrec.training import checkpoint as checkpoints
from recbole_asarrec.version import __version__

# of the machine and the process, not of the model
_NOT_SETTINGS = (
    *("data_path", "checkpoint_dir", "dataset_save_path", "dataloaders_save_path", "save_dataset"),
    *("save_dataloaders", "preload_weight", "gpu_id", "use_gpu", "device", "worker", "nproc", "world_size"),
    *("local_rank", "offset", "ip", "port", "single_spec", "state", "show_progress", "log_wandb"),
    *("wandb_project", "resume", "download", "trust_checkpoint", "trust_cache", "model", "dataset"),
)


class Exported(NamedTuple):
    """What was written.

    Attributes:
        folder: where.
        info: the content of its ``model.json``.
    """

    folder: Path
    info: dict[str, Any]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.folder.iterdir())


def export_checkpoint(
    checkpoint: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    ann: bool = False,
    overwrite: bool = False,
    trust_checkpoint: bool = False,
) -> Exported:
    """Write a saved model to a folder that :class:`recbole_asarrec.serving.Recommender` opens.

    Args:
        checkpoint: a ``.pth`` file saved by a run through this package, stock models included.
        folder: where to; it appears whole or not at all.
        ann: add an index for approximate search.
        overwrite: replace an exported model that is there.
        trust_checkpoint: load a file that runs code when opened.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        ExportError: the model cannot be exported (the sentence has the reason), or the folder is taken.
        UserError: a package is missing.
    """
    _check_target(Path(folder), overwrite)
    onnx_graph.check_packages()
    loaded = Recommender(checkpoint, device="cpu", trust_checkpoint=trust_checkpoint)
    state = checkpoints.read(checkpoint, trust=trust_checkpoint)
    described = {
        "model": state["config"]["model"],
        "dataset": state["config"]["dataset"],
        "epoch": state["epoch"] + 1 if isinstance(state.get("epoch"), int) else None,
        "metrics": _metrics(state),
        "settings": _settings(state["config"]),
    }
    return export_model(loaded.model, loaded.tokens[1:], folder, described, ann, overwrite)


def export_model(
    model: Any,
    tokens: Sequence[str],
    folder: str | os.PathLike[str],
    described: Mapping[str, Any],
    ann: bool = False,
    overwrite: bool = False,
) -> Exported:
    """Write a model on the CPU to a folder; see :func:`export_checkpoint`.

    Args:
        model: a sequential model.
        tokens: of its items, without padding.
        folder: where to.
        described: what else ``model.json`` says.
        ann: add an index for approximate search.
        overwrite: replace an exported model that is there.
    """
    target = Path(folder).resolve()
    _check_target(target, overwrite)
    onnx_graph.check_packages()
    if ann:
        load_faiss()
    text = _lines(tokens)
    encoder = HistoryEncoder(model)
    vectors = item_vectors(encoder)
    encoder.pads = not is_padding_invariant(encoder, len(vectors))
    graph = onnx_graph.to_onnx(encoder)
    checked = check_count(len(vectors))
    difference = onnx_graph.check(encoder, graph, vectors, checked)
    with _new_folder(target) as part:
        (part / ENCODER).write_bytes(graph)
        items = np.ascontiguousarray(vectors.numpy(), dtype="<f4")
        with open(part / VECTORS, "wb") as file:
            np.lib.format.write_array(file, items, version=(1, 0), allow_pickle=False)
        (part / TOKENS).write_bytes(text)
        info = {
            "format": FORMAT,
            **described,
            "num_items": len(items),
            "dim": items.shape[1],
            "max_length": encoder.max_length,
            "verified": {"histories": checked, "largest_difference": difference},
            "versions": _versions(),
        }
        if ann:
            info["index"] = _write_index(part / INDEX, graph, items, encoder.max_length)
        info["files"] = {path.name: _checksum(path) for path in sorted(part.iterdir())}
        (part / MANIFEST).write_text(json.dumps(info, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        ExportedRecommender(part, search="ann" if ann else "exact")
    return Exported(target, info)


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.absolute().parent.is_dir():
        raise ExportError(f"The folder '{target.absolute().parent}' does not exist; make it first.")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir():
        raise ExportError(f"'{target}' is a file; name a folder.")
    try:
        read_manifest(target)
    except ExportError as error:
        raise ExportError(
            f"The folder '{target}' has other things than an exported model; choose another name."
        ) from error
    if not overwrite:
        raise ExportError(f"The folder '{target}' exists; choose another name or add --overwrite.")


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """An empty folder that takes the place of ``target`` at the end; on an error all is as it was."""
    if not target.exists():
        with atomic_folder(target) as part:
            yield part
        return
    fresh, old = (target.with_name(f".{target.name}-{secrets.token_hex(4)}") for _ in range(2))
    try:
        with atomic_folder(fresh) as part:
            yield part
        os.rename(target, old)
        try:
            os.rename(fresh, target)
        except OSError:
            os.rename(old, target)
            raise
    finally:
        for left in (fresh, old):
            with suppress(OSError):
                shutil.rmtree(left)


def _lines(tokens: Sequence[str]) -> bytes:
    for token in tokens:
        if "\n" in token:
            raise ExportError(f"The item {token!r} cannot be exported: its token has a line break.")
    try:
        return "".join(f"{token}\n" for token in tokens).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ExportError("The items cannot be exported: a token has letters that UTF-8 lacks.") from error


def _write_index(path: Path, graph: bytes, items: np.ndarray, max_length: int) -> dict[str, Any]:
    index = indexing.build(items)
    histories = random_histories(len(items), max_length, indexing.QUERIES, seed=2)
    encode = Encoder(graph, items.shape[1])
    users = np.concatenate([encode(part.contiguous().numpy()) for part in histories.split(100)])
    said = indexing.tune(index, items, users)
    load_faiss().write_index(index, str(path))
    return said


def _checksum(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _metrics(state: Mapping[str, Any]) -> dict[str, Any]:
    """The validation score of the saved weights, if they were validated."""
    score = state.get("best_valid_score")
    known = isinstance(score, (int, float)) and math.isfinite(score) and abs(score) < 1e9
    return {"validation": {str(state["config"].get("valid_metric")): score}} if known else {}


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as JSON, without what belongs to the machine it was trained on."""
    kept = {key: value for key, value in config.items() if key not in _NOT_SETTINGS and value is not None}
    plain: dict[str, Any] = json.loads(json.dumps(kept, default=str))
    return plain


def _versions() -> dict[str, str | None]:
    packages = {name: installed(name) for name in ("onnx", "onnxruntime", "numpy")}
    return {
        "recbole_asarrec": __version__,
        "recbole": RECBOLE,
        "torch": torch.__version__,
        **packages,
        "python": platform.python_version(),
    }
