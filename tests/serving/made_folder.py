"""An exported folder made by hand, whose model is simple: a user vector is the sum of the item vectors."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MAX_LENGTH = 6


def vectors(num_items: int = 50, dim: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(num_items, dim)).astype(np.float32)


def graph(table: np.ndarray, kind: int = TensorProto.INT64) -> onnx.ModelProto:
    """Look up and add: ``[B, n] → [B, d]``; row 0 of the table is padding."""
    initializers = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([1]), "axis")]
    nodes = [
        helper.make_node("Gather", ["table", "items"], ["embedded"]),
        helper.make_node("ReduceSum", ["embedded", "axis"], ["users"], keepdims=0),
    ]
    made = helper.make_graph(
        nodes,
        "sum",
        [helper.make_tensor_value_info("items", kind, ["batch", "length"])],
        [helper.make_tensor_value_info("users", TensorProto.FLOAT, ["batch", table.shape[1]])],
        initializers,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def as_npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def write(
    folder: Path, items: np.ndarray | None = None, contents: dict | None = None, **manifest: object
) -> Path:
    """A folder whose checksums are right, whatever its files hold.

    Args:
        folder: where to.
        items: item vectors.
        contents: files by name that replace or join the usual ones.
        manifest: keys of model.json that replace the usual ones; None leaves one out.
    """
    items = vectors() if items is None else items
    table = np.concatenate([np.zeros((1, items.shape[1]), dtype=np.float32), items])
    made = {
        "encoder.onnx": graph(table).SerializeToString(),
        "items.npy": as_npy(items),
        "items.txt": "".join(f"i{number}\n" for number in range(len(items))).encode(),
        **(contents or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        (folder / name).write_bytes(content)
    whole = {
        "format": 1,
        "model": "Sum",
        "dataset": "made up",
        "num_items": len(items),
        "dim": items.shape[1],
        "max_length": MAX_LENGTH,
        "versions": {"recbole_asarrec": "0"},
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in made.items()
        },
        **manifest,
    }
    text = json.dumps({key: value for key, value in whole.items() if value is not None})
    (folder / "model.json").write_text(text, encoding="utf-8")
    return folder
