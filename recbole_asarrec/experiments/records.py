"""What a finished run leaves behind: one line of JSON, written whole or not at all.

A results folder holds ``runs.jsonl``. Its lines are only ever appended; a line that a crash cut off is passed
over when reading and removed before the next is written.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np

from recbole_asarrec.errors import DataError, UserError
from recbole_asarrec.files import Lock

RUNS = "runs.jsonl"
MAX_RANK = 254  # the last that is told from those beyond; metrics look at the first few
PROTOCOLS = {
    "all_items": "full ranking over all items (RecBole's)",
    "unseen_items": "full ranking without the items of the user's history",
}


class RunFailed(UserError):
    """A run that ended without a record."""


@dataclass(frozen=True)
class Spec:
    """What is to be run: everything the user chose, and nothing else.

    Attributes:
        model: name of a model.
        dataset: name of a dataset.
        seed: RecBole's ``seed``.
        keys: all other configuration keys, the noise among them.
    """

    model: str
    dataset: str
    seed: int
    keys: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.run)

    @property
    def run(self) -> str:
        """Sixteen letters that this specification alone has."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def augmentation(self) -> str:
        """How this run makes its views, as the tables write it: ``asar``, ``insert + mask``, ``none``."""
        if not self.model.startswith("Asar"):
            return "none"
        chosen = self.keys.get("augmentation", "asar")
        return " + ".join(chosen) if isinstance(chosen, (list, tuple)) else str(chosen)

    @property
    def recipe(self) -> str:
        """How this run trains; stock models have RecBole's own, plain way."""
        return str(self.keys.get("recipe", "robust")) if self.model.startswith("Asar") else "plain"

    @property
    def noise_ratio(self) -> float:
        """The share of the training items that are noise."""
        return float(self.keys.get("noise_ratio", 0))


@dataclass(frozen=True)
class Record:
    """A finished run.

    Attributes:
        spec: what was asked for.
        config: the configuration RecBole merged of it, as plain values.
        machine: processor, versions and commit.
        noise: what was added to the data, with its ``fingerprint``; nothing without noise.
        curve: one entry an epoch: ``epoch``, ``seconds``, ``losses``, ``valid`` and ``augmenter``.
        best_epoch: the epoch whose weights were tested, counted from 0.
        valid: metrics of that epoch on validation, by RecBole's protocol.
        test: metrics on test by protocol (:data:`PROTOCOLS`): ``{"all_items": {"hit@10": …}, …}``.
        ranks: by protocol, the rank of every user's test item counted from 1, ``[U]``, ordered by user token;
            saved up to :data:`MAX_RANK`.
        users: a hash of the users in that order: ranks of two runs can be paired if it is the same.
        seconds: wall time of training.
        peak_gib: the most memory the process held.
        views: what the augmenter did, for pictures (see ``experiments/views.py``); nothing for other models.
        data: counts of ``users``, ``items`` and ``interactions`` after filtering; nothing if not counted.
    """

    spec: Spec
    config: dict[str, Any]
    machine: dict[str, Any]
    noise: dict[str, Any] | None
    curve: list[dict[str, Any]]
    best_epoch: int
    valid: dict[str, float]
    test: dict[str, dict[str, float]]
    ranks: dict[str, np.ndarray]
    users: str
    seconds: float
    peak_gib: float
    views: dict[str, Any] | None = None
    data: dict[str, int] | None = None

    @property
    def valid_metric(self) -> str:
        """What early stopping watched, as :attr:`valid` writes it."""
        return str(self.config["valid_metric"]).lower()

    @property
    def validation(self) -> float:
        """The validation score of the epoch that was tested."""
        return self.valid[self.valid_metric]

    def to_json(self) -> str:
        """One line."""
        plain = {**self.__dict__, "spec": asdict(self.spec), "run": self.spec.run}
        plain["ranks"] = {name: pack(ranks) for name, ranks in self.ranks.items()}
        plain["curve"] = rounded(self.curve)
        return json.dumps(plain)

    @classmethod
    def from_json(cls, line: str) -> Record:
        """The record of a line."""
        plain = json.loads(line)
        plain.pop("run")
        ranks = {name: unpack(text) for name, text in plain.pop("ranks").items()}
        return cls(spec=Spec(**plain.pop("spec")), ranks=ranks, **plain)


def pack(ranks: np.ndarray) -> str:
    """Ranks as text: one byte each, deflated, base 64. Those beyond :data:`MAX_RANK` are all the same."""
    capped = np.minimum(ranks, MAX_RANK + 1).astype(np.uint8)
    return base64.b64encode(zlib.compress(capped.tobytes(), 9)).decode()


def unpack(text: str) -> np.ndarray:
    """The ranks that :func:`pack` made into text."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8).astype(np.int64)


def rounded(value: Any) -> Any:
    """Plain data with floats of six significant digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, (list, tuple)) else value


def _whole_bytes(content: bytes) -> int:
    """How much of a file is whole lines."""
    return content.rfind(b"\n") + 1


def read(folder: str | os.PathLike[str]) -> list[Record]:
    """All finished runs of a results folder, oldest first.

    Raises:
        DataError: naming a line that is no record, or a folder without results.
    """
    path = Path(folder) / RUNS
    if not path.is_file():
        raise DataError(f"'{folder}' holds no results: there is no file '{RUNS}'.")
    content = path.read_bytes()
    whole = _whole_bytes(content)
    if whole < len(content):
        getLogger().warning(f"The last line of '{path}' was cut off; it is read up to there.")
    records = []
    for number, line in enumerate(content[:whole].splitlines(), 1):
        try:
            records.append(Record.from_json(line.decode()))
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            raise DataError(f"Line {number} of '{path}' is no record of a run ({error}).") from error
    return records


def append(record: Record, folder: str | os.PathLike[str]) -> None:
    """Add a run; if it cannot be written whole (a full disk, say), the file stays as it was."""
    path = Path(folder) / RUNS
    path.parent.mkdir(parents=True, exist_ok=True)
    with Lock(path), open(path, "a+b") as file:
        file.seek(0)
        whole = _whole_bytes(file.read())
        file.truncate(whole)
        try:
            file.write(record.to_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(whole)
            raise DataError(f"The run could not be added to '{path}': {error.strerror}.") from error
