"""Small generated data with known answers, and RecBole run in a folder of its own."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:
    # a core for each worker and what it starts: threads of several that share cores wait for each other
    os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest
import torch

import recbole_asarrec  # noqa: F401  (registers the plugin)

SMALL = {
    "training": "prefix",
    "hidden_size": 16,
    "inner_size": 32,
    "n_layers": 1,
    "n_heads": 1,
    "epochs": 2,
    "train_batch_size": 128,
    "show_progress": False,
    "state": "ERROR",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The lane first: it is the suite once more, and other workers can do the rest beside it."""
    items.sort(key=lambda item: item.get_closest_marker("lane") is None)


def write_atomic(folder: Path, name: str, users: int = 80, items: int = 30, seed: int = 0) -> Path:
    """A walk over a ring of items: the next item is the last plus one, or plus three one time in five."""
    rng = np.random.default_rng(seed)
    lines = ["user_id:token\titem_id:token\ttimestamp:float"]
    for user in range(users):
        item = int(rng.integers(items))
        for time in range(int(rng.integers(5, 16))):
            lines.append(f"u{user}\ti{item}\t{time}")
            item = (item + (3 if rng.random() < 0.2 else 1)) % items
    target = folder / name / f"{name}.inter"
    target.parent.mkdir(parents=True)
    target.write_text("\n".join(lines) + "\n")
    return target


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder as the current one, a bare command line, and RecBole's log handlers gone afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield tmp_path
    for handler in [h for h in root.handlers if h not in before]:
        handler.close()
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def toy(workplace):
    """The workplace with the data set ``toy`` in it."""
    write_atomic(workplace / "dataset", "toy")
    return workplace


LEARNS = {**SMALL, "epochs": 12, "learning_rate": 0.01, "hidden_dropout_prob": 0.1, "attn_dropout_prob": 0.1}


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with the data set ``toy`` and one model that has learned it, made once."""
    from recbole.quick_start import run_recbole

    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["pytest"])
        write_atomic(folder / "dataset", "toy")
        run_recbole(model="AsarSASRec", dataset="toy", config_dict=dict(LEARNS))
    return folder


def build(model: str = "AsarSASRec", dataset: str = "toy", small: dict = SMALL, **keys):
    """Config, training data and a fresh model, as RecBole's quick start makes them."""
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, init_seed

    config = Config(model=model, dataset=dataset, config_dict={**small, **keys})
    init_seed(config["seed"], config["reproducibility"])
    data = data_preparation(config, create_dataset(config))
    init_seed(config["seed"], config["reproducibility"])
    return config, data, get_model(model)(config, data[0]._dataset).to(config["device"])


def assert_same_gradients(one: tuple, two: tuple, atol: float = 1e-6) -> None:
    """Each is a model and its loss: backward through both gives every parameter the same gradient."""
    gradients = []
    for model, loss in (one, two):
        model.zero_grad()
        loss.backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys() and gradients[0]
    for name, found in gradients[0].items():
        assert torch.allclose(found, gradients[1][name], atol=atol), name


def random_scores(batch: int, size: int, seed: int, sharpness: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(batch, size, size, generator=generator) * sharpness).softmax(-1)
