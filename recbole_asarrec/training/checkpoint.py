"""Checkpoints that hold data and no code: ``torch.load(path, weights_only=True)`` reads them anywhere."""

from __future__ import annotations

import os
import pickle
import shutil
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from enum import Enum
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from recbole_asarrec.errors import CheckpointError
from recbole_asarrec.files import atomic_write

_NUMPY = "__numpy__"
_SPARSE = "__sparse__"


def to_plain(value: Any, where: str = "") -> Any:
    """Turn a value into tensors, numbers, strings and containers of these.

    Enums become their names, devices and paths strings, NumPy and SciPy arrays tagged tensors that
    :func:`from_plain` turns back; modules are left out. Anything else is kept as its text, with a warning
    that names ``where``.
    """
    if value is None or type(value) in (bool, int, float, str) or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (str, int, float)):  # subclasses
        return str(value) if isinstance(value, str) else float(value)
    if isinstance(value, (torch.device, os.PathLike, torch.dtype)):
        return str(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {_NUMPY: torch.from_numpy(np.array(value)), "matrix": isinstance(value, np.matrix)}
    if sparse.issparse(value):
        coo = value.tocoo()
        parts = [torch.from_numpy(np.asarray(part).copy()) for part in (coo.row, coo.col, coo.data)]
        return {_SPARSE: value.format, "shape": list(coo.shape), "parts": parts}
    if isinstance(value, Mapping):
        made = {
            key: to_plain(item, f"{where}.{key}")
            for key, item in value.items()
            if not isinstance(item, torch.nn.Module)  # its weights are in the state dict
        }
        return OrderedDict(made) if isinstance(value, OrderedDict) else made
    if isinstance(value, (list, tuple, set)):
        kind = next(kind for kind in (list, tuple, set) if isinstance(value, kind))
        return kind(to_plain(item, where) for item in value)
    getLogger().warning(f"The checkpoint keeps {where.lstrip('.')} ({type(value).__name__}) only as text.")
    return str(value)


def from_plain(value: Any) -> Any:
    """Turn the tagged arrays of :func:`to_plain` back into NumPy and SciPy ones."""
    if isinstance(value, Mapping):
        if _NUMPY in value:
            array = value[_NUMPY].cpu().numpy()
            return np.asmatrix(array) if value["matrix"] else array
        if _SPARSE in value:
            row, col, data = (part.cpu().numpy() for part in value["parts"])
            return sparse.coo_matrix((data, (row, col)), shape=value["shape"]).asformat(value[_SPARSE])
        return {key: from_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(from_plain(item) for item in value)
    return value


def write(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Save ``state`` as plain data; the file appears whole or not at all.

    Raises:
        CheckpointError: it cannot be written; what was there before is still there.
    """
    target = Path(path)
    try:
        with atomic_write(target, "wb") as file:
            torch.save(to_plain(dict(state)), file)
    except (OSError, RuntimeError) as error:  # torch hides the system's error in a RuntimeError
        free = shutil.disk_usage(target.parent).free >> 20 if target.parent.is_dir() else 0
        reason = getattr(error, "strerror", None) or "the disk did not take all of it"
        raise CheckpointError(
            f"The checkpoint '{target}' cannot be written ({free} MiB are free there): {reason}. What was "
            "saved before is whole; make room or change checkpoint_dir, and resume with resume: True."
        ) from error


def read(
    path: str | os.PathLike[str], device: Any = "cpu", trust: bool = False, mapped: bool = False
) -> dict[str, Any]:
    """Load a checkpoint without running code from it.

    Args:
        path: the file.
        device: where tensors go.
        trust: load it even if it holds pickled objects, which can run anything.
        mapped: map tensors from the file instead of reading them: processes share the memory, and what is
            not used is not read.

    Raises:
        CheckpointError: it is not there, not whole, not a checkpoint, or holds code and is not trusted.
    """
    file = Path(path)
    if not file.is_file():
        kind = "is a folder" if file.is_dir() else "does not exist"
        raise CheckpointError(f"The checkpoint '{file}' {kind}; name a .pth file that training saved.")
    try:
        maps = mapped and zipfile.is_zipfile(file)  # torch's old format cannot be mapped
        state = torch.load(file, map_location=device, weights_only=not trust, mmap=maps)
    except pickle.UnpicklingError as error:
        if not zipfile.is_zipfile(file):
            raise CheckpointError(f"'{file}' is not a whole checkpoint; take an earlier one.") from error
        raise CheckpointError(
            f"The checkpoint '{file}' holds pickled objects, which run code when opened; if you made it "
            "yourself, load it with the key trust_checkpoint: True."
        ) from error
    except Exception as error:  # torch's readers raise anything at a broken file
        raise CheckpointError(f"'{file}' is not a whole checkpoint; take an earlier one.") from error
    missing = [key for key in ("config", "state_dict") if not isinstance(state, dict) or key not in state]
    if missing:
        raise CheckpointError(f"'{file}' is no RecBole checkpoint: it has no {' and no '.join(missing)}.")
    weights = state["state_dict"]
    if not isinstance(weights, Mapping) or not all(map(torch.is_tensor, weights.values())):
        raise CheckpointError(f"'{file}' is no RecBole checkpoint: its state_dict is not made of tensors.")
    return state


def item_tokens(state: Mapping[str, Any], path: str | os.PathLike[str]) -> list[str]:
    """The raw tokens of a checkpoint's items by their ids; the first is padding.

    Raises:
        CheckpointError: it does not name them.
    """
    tokens = state.get("item_tokens")
    named = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
    if not tokens or not named or len(tokens) < 2 or not isinstance(state["config"], dict):
        raise CheckpointError(
            f"The checkpoint '{path}' does not name its items; "
            "train it through recbole_asarrec, which stores them."
        )
    return tokens


def load_into(
    model: Any, state: Mapping[str, Any], path: str | os.PathLike[str], assign: bool = False
) -> None:
    """Copy a checkpoint's weights into ``model``, or with ``assign`` let it use them as they are.

    Raises:
        CheckpointError: naming the other model, the other catalogue or the parameter that does not fit.
    """
    made_for, name = state["config"]["model"], type(model).__name__
    if made_for.lower() != name.lower():
        raise CheckpointError(f"The checkpoint '{path}' is of {made_for}, not of {name}.")
    mine, theirs = model.state_dict(), state["state_dict"]
    for key in dict.fromkeys([*mine, *theirs]):
        if key not in mine or key not in theirs:
            lacking = "the checkpoint" if key in mine else "the model"
            raise CheckpointError(
                f"The checkpoint '{path}' does not fit this {name}: {lacking} has no '{key}'; "
                "use the configuration it was trained with."
            )
        if mine[key].shape != theirs[key].shape:
            what = "another item set" if key.startswith("item_embedding") else "another configuration"
            raise CheckpointError(
                f"The checkpoint '{path}' was trained with {what}: '{key}' is {tuple(theirs[key].shape)} "
                f"there and {tuple(mine[key].shape)} here."
            )
    model.load_state_dict(theirs, assign=assign)
    model.load_other_parameter(from_plain(state.get("other_parameter")))
