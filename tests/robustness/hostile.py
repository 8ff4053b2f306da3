"""Files that would run code when opened, tried through every door: none may get in."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from robustness.playground import SMALL, write_ring

from recbole_asarrec.errors import UserError
from recbole_asarrec.training import checkpoint

_MARK = "code-was-run"


class _Code:
    """Leaves a folder behind when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._mark = str(folder / _MARK)

    def __reduce__(self) -> tuple[Callable, tuple[str]]:
        return os.mkdir, (self._mark,)


def hostile_checkpoints(folder: Path, whole: Mapping[str, Any]) -> Iterator[Path]:
    """Checkpoints with code in each of their parts, and bare pickles."""
    code = _Code(folder)
    for part in whole:
        file = folder / f"code-in-{part}.pth"
        torch.save({**checkpoint.to_plain(dict(whole)), part: code}, file)
        yield file
    for name, content in {"bare": code, "hidden": {"config": {"model": code}, "state_dict": {}}}.items():
        file = folder / f"{name}.pth"
        file.write_bytes(pickle.dumps(content))
        yield file


def try_everything(folder: Path) -> tuple[int, int]:
    """Offer every hostile file to everything that reads such files.

    Args:
        folder: an empty one.

    Returns:
        How many attempts there were, and how many of them ran code.
    """
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.quick_start import load_data_and_model
    from recbole.utils import get_trainer

    from recbole_asarrec import AsarSASRec, Recommender
    from recbole_asarrec.data import cached_neighbours

    write_ring(folder / "dataset", "ring")
    keys = {
        **SMALL,
        "data_path": str(folder / "dataset"),
        "checkpoint_dir": str(folder / "saved"),
        "epochs": 1,
    }

    def settings(**more: Any) -> Any:
        return Config("AsarSASRec", "ring", config_dict={**keys, **more})

    config = settings()
    train, valid, test = data_preparation(config, create_dataset(config))

    def trainer(**more: Any) -> Any:
        one = settings(**more)
        return get_trainer(one["MODEL_TYPE"], "AsarSASRec")(one, AsarSASRec(one, train._dataset))

    first = trainer()
    first.fit(train, valid)
    whole = checkpoint.read(first.saved_model_file)
    doors: dict[str, Callable[[Path], object]] = {
        "recommend": Recommender,
        "load_data_and_model": lambda file: load_data_and_model(str(file)),
        "evaluate": lambda file: first.evaluate(test, model_file=file),
        "resume_checkpoint": first.resume_checkpoint,
    }
    files = list(hostile_checkpoints(folder, whole))
    attempts: list[Callable[[], object]] = [partial(door, file) for door in doors.values() for file in files]
    bare = pickle.dumps(_Code(folder))
    for name in ("ring-AsarDataset.pth", "ring-SequentialDataset.pth", "ring-for-AsarSASRec-dataloader.pth"):
        (folder / "caches").mkdir(exist_ok=True)
        (folder / "caches" / name).write_bytes(bare)
    cached = settings(checkpoint_dir=str(folder / "caches"))
    attempts += [
        lambda: create_dataset(cached),
        lambda: data_preparation(cached, create_dataset(config)),
        lambda: create_dataset(settings(dataset_save_path=str(folder / "bare.pth"))),
    ]
    # a checkpoint that is plain data and gives itself the word of trust
    trusting = {"trust_cache": True, "trust_checkpoint": True, "dataset_save_path": str(folder / "bare.pth")}
    checkpoint.write({**whole, "config": {**whole["config"], **trusting}}, folder / "trusting.pth")
    attempts.append(lambda: load_data_and_model(str(folder / "trusting.pth")))
    # a run to go on with
    (folder / "runs").mkdir()
    for file in files:
        (folder / "runs" / file.with_suffix(".run").name).write_bytes(file.read_bytes())
    attempts.append(lambda: trainer(resume=True, checkpoint_dir=str(folder / "runs")).fit(train, valid))
    # the similarity cache
    cached_neighbours(train._dataset)
    (neighbours,) = (folder / "dataset" / "ring").glob("*.npy")
    np.save(neighbours, np.array([_Code(folder)], dtype=object), allow_pickle=True)
    attempts.append(lambda: cached_neighbours(train._dataset))
    # a configuration file
    (folder / "code.yaml").write_text(
        f"seed: !!python/object/apply:os.mkdir ['{folder / _MARK}']\n", encoding="utf-8"
    )
    attempts.append(lambda: Config("AsarSASRec", "ring", config_file_list=[str(folder / "code.yaml")]))
    attempts.append(lambda: settings(seed=f"__import__('os').mkdir('{folder / _MARK}')"))
    return len(attempts), sum(_runs_code(attempt, folder) for attempt in attempts)


def _runs_code(attempt: Callable[[], object], folder: Path) -> bool:
    with suppress(UserError):  # refused in words; anything else is a failure of the campaign
        attempt()
    if not (folder / _MARK).exists():
        return False
    (folder / _MARK).rmdir()
    return True
