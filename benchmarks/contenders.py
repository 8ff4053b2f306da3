"""Who is measured: stock RecBole beside this package, on the same data with the same hyper-parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from recbole_asarrec.config.settings import AUGMENTATIONS
from recbole_asarrec.errors import UserError


class Contender(NamedTuple):
    """A model with the keys that make it what it is.

    Attributes:
        model: RecBole's name of it.
        keys: its configuration beside what all share.
        stock: run as RecBole runs it: its own batches, anomaly mode on, no allocator settings.
    """

    model: str
    keys: dict[str, Any]
    stock: bool = False


_STOCK = {"train_neg_sample_args": None, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
_NONE = {"augmentation": "none"}
_ROWS, _WINDOWS = {"training": "prefix"}, {"training": "all_positions"}
_PAPER = {"recipe": "paper", "train_batch_size": 512, "noise_ratio": 0.2}
_IN_PAPER = {"none": "none", "cl4srec": "cl4srec", "random_matrix": "random_matrix", "AsarRec": "asar"}

OTHERS = [name for name in AUGMENTATIONS if name not in ("asar", "none")]

CONTENDERS = {
    "RecBole SASRec": Contender("SASRec", _STOCK, stock=True),
    "RecBole FEARec": Contender("FEARec", _STOCK, stock=True),
    "none, prefix": Contender("AsarSASRec", {**_NONE, **_ROWS}),
    "AsarRec, prefix": Contender("AsarSASRec", _ROWS),
    "none, all positions": Contender("AsarSASRec", {**_NONE, **_WINDOWS}),
    "AsarRec, all positions": Contender("AsarSASRec", _WINDOWS),
    **{
        f"{name}, all positions": Contender("AsarSASRec", {**_WINDOWS, "augmentation": name})
        for name in OTHERS
    },
    **{
        f"{name}, paper": Contender("AsarSASRec", {**_PAPER, "augmentation": augmentation})
        for name, augmentation in _IN_PAPER.items()
    },
}

# ratios that tell the story: name, numerator, denominator
RATIOS = [
    ("AsarRec ÷ RecBole SASRec, prefix", "AsarRec, prefix", "RecBole SASRec"),
    ("AsarRec ÷ RecBole SASRec, all positions", "AsarRec, all positions", "RecBole SASRec"),
    ("AsarRec ÷ none, prefix", "AsarRec, prefix", "none, prefix"),
    ("AsarRec ÷ none, all positions", "AsarRec, all positions", "none, all positions"),
    *((f"{name} ÷ none, all positions", f"{name}, all positions", "none, all positions") for name in OTHERS),
    *(
        (f"AsarRec ÷ {name}, all positions", "AsarRec, all positions", f"{name}, all positions")
        for name in ("mask", "crop", "substitute")
    ),
    *((f"{name} ÷ none, paper", f"{name}, paper", "none, paper") for name in _IN_PAPER if name != "none"),
    ("AsarRec ÷ cl4srec, paper", "AsarRec, paper", "cl4srec, paper"),
    *((f"{name} ÷ mask", f"{name}, all positions", "mask, all positions") for name in ("reorder", "insert")),
]


def check_names(names: Iterable[str]) -> None:
    """Stop at a name that is none of the contenders'."""
    for name in names:
        if name not in CONTENDERS:
            raise UserError(f"There is no contender '{name}'; there are {', '.join(CONTENDERS)}.")
