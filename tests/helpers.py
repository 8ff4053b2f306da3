"""Small generated data with known answers, and a model built on it the way RecBole's quick start does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parent.parent
AS_RECBOLE = {  # an Asar model with these is its backbone, bit for bit
    "augmentation": "none",
    "recipe": "plain",
    "batching": "random",
    "byte_dropout": False,
    "fused": False,
}

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
# what a stock model needs on `toy`
STOCK = {"train_neg_sample_args": None, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
# enough steps that a model knows a steady walk by heart, validated once
LEARNS = {
    **SMALL,
    "epochs": 25,
    "eval_step": 25,
    "learning_rate": 0.02,
    "hidden_dropout_prob": 0.1,
    "attn_dropout_prob": 0.1,
}

BACKBONES = {
    "SASRec": "hidden_size inner_size hidden_dropout_prob attn_dropout_prob",
    "GRU4Rec": "embedding_size hidden_size dropout_prob",
    "FMLPRec": "hidden_size inner_size hidden_dropout_prob",
    "NARM": "embedding_size hidden_size dropout_probs",
    "STAMP": "embedding_size",
    "CORE": "embedding_size inner_size hidden_dropout_prob attn_dropout_prob",
    "LightSANs": "hidden_size inner_size hidden_dropout_prob attn_dropout_prob",
    "NextItNet": "embedding_size block_num",
}


def keys_of(backbone: str) -> dict:
    """Keys of a small model that learns quickly, those alone that this backbone knows."""
    of_all = {"epochs": 12, "learning_rate": 0.03, "train_batch_size": 128, "MAX_ITEM_LIST_LENGTH": 20}
    own = {
        "embedding_size": 16,
        "hidden_size": 16,
        "inner_size": 32,
        "hidden_dropout_prob": 0.1,
        "attn_dropout_prob": 0.1,
        "dropout_prob": 0.1,
        "dropout_probs": [0.1, 0.1],
        "block_num": 1,
    }
    quiet = {"show_progress": False, "state": "ERROR"}
    return {**of_all, **quiet, **{key: own[key] for key in BACKBONES[backbone].split()}}


def write_atomic(
    folder: Path, name: str, users: int = 80, items: int = 30, seed: int = 0, skips: float = 0.2
) -> Path:
    """A walk over a ring of items: the next is the last plus one, or plus three with chance ``skips``."""
    rng = np.random.default_rng(seed)
    lines = ["user_id:token\titem_id:token\ttimestamp:float"]
    for user in range(users):
        item = int(rng.integers(items))
        for time in range(int(rng.integers(5, 16))):
            lines.append(f"u{user}\ti{item}\t{time}")
            item = (item + (3 if rng.random() < skips else 1)) % items
    target = folder / name / f"{name}.inter"
    target.parent.mkdir(parents=True)
    target.write_text("\n".join(lines) + "\n")
    return target


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
