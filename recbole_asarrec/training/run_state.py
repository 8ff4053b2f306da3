"""A run that can be stopped anywhere and resumed, to the bit.

Beside ``<run>.pth``, the best weights, training keeps ``<run>.run``: everything an epoch starts from. It is
replaced at the start of each epoch, and the one before is kept as ``<run>.run.before``.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import zipfile
from collections.abc import Iterable, Mapping
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recbole_asarrec.errors import CheckpointError
from recbole_asarrec.files import Lock, remove_parts
from recbole_asarrec.training import checkpoint

SUFFIX = ".run"
# keys that say where and how a run is shown, not what it computes
_INCIDENTAL = {
    "resume",
    "checkpoint_dir",
    "data_path",
    "show_progress",
    "state",
    "verbose",
    "log_wandb",
    "wandb_project",
    "trust_checkpoint",
    "trust_cache",
    "download",
    "detect_anomaly",
    "device",
    "gpu_id",
    "worker",
    "ip",
    "port",
    "local_rank",
    "offset",
    "save_dataset",
    "save_dataloaders",
    "dataset_save_path",
    "dataloaders_save_path",
    "config_files",
}


def fingerprint(config: Mapping[str, Any], columns: Iterable[torch.Tensor]) -> str:
    """A hash of what a run computes: its configuration and its training interactions."""
    kept = {str(key): value for key, value in config.items() if key not in _INCIDENTAL}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode())
    for column in columns:
        digest.update(np.ascontiguousarray(column.cpu().numpy()).data)
    return digest.hexdigest()


def random_state(loaders: Iterable[Any]) -> dict[str, Any]:
    """Every generator a training run draws from."""
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [kind, torch.from_numpy(np.asarray(keys, dtype=np.int64)), position, has_gauss, cached],
        "python": random.getstate(),
        "loaders": [loader.generator and loader.generator.get_state() for loader in loaders],
    }


def restore_random_state(state: Mapping[str, Any], loaders: Iterable[Any]) -> None:
    """Put every generator back to where :func:`random_state` saw it."""
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([one.cpu() for one in state["cuda"]])
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))
    random.setstate(state["python"])
    for loader, one in zip(loaders, state["loaders"]):
        if one is not None:
            loader.generator.set_state(one.cpu())


class RunFile:
    """The file a run resumes from, held by one process at a time.

    Args:
        path: ``<run>.run``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = path.with_name(path.name + ".before")
        self._new = path.with_name(path.name + ".new")
        self._lock = Lock(path)

    def claim(self) -> bool:
        """Hold the file until :meth:`release`; False if another process does."""
        if not self._lock.acquire(wait=False):
            return False
        for path in (self._new, self.path.with_suffix(".pth")):
            remove_parts(path)
        return True

    def release(self) -> None:
        """Let others have it."""
        self._lock.release()

    def save(self, state: Mapping[str, Any]) -> None:
        """Write the newest state; the one before stays until the new one is whole."""
        checkpoint.write(state, self._new)
        if self.path.exists():
            os.replace(self.path, self.before)
        os.replace(self._new, self.path)

    def load(self) -> dict[str, Any]:
        """The newest state that is whole.

        Raises:
            CheckpointError: neither file is.
        """
        try:
            return self._read(self.path)
        except CheckpointError as error:
            if not self.before.exists():
                raise
            getLogger().warning(f"{error} The one before, '{self.before}', is used.")
            return self._read(self.before)

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        if path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if archive.testzip() is not None:
                    raise CheckpointError(f"'{path}' is damaged.")
        return checkpoint.read(path)

    @classmethod
    def find(cls, folder: Path, wanted: str) -> RunFile | None:
        """Claim the newest run of a folder with this fingerprint that nobody else is resuming."""
        found = [*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{SUFFIX}.before")]
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in dict.fromkeys(Path(str(path).removesuffix(".before")) for path in found):
            file = cls(path)
            try:
                matches = file.load()["fingerprint"] == wanted
            except (CheckpointError, KeyError):
                continue
            if matches and file.claim():
                return file
        return None
