"""``bound``: what could be won by choosing views at all, on validation data.

Views of every kind and rate, and views that know what no augmenter can: which items are noise. The best of
these bounds what an augmenter can win by its choice of items and operations.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from recbole.data.interaction import Interaction
from torch import Tensor

from benchmarks import common
from recbole_asarrec import AsarDataset, AsarSASRec, AsarTrainer, compat
from recbole_asarrec.augment import ViewPair, build_view
from recbole_asarrec.data import TARGETS
from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments.records import Spec
from recbole_asarrec.experiments.run import run as run_spec
from recbole_asarrec.models.contrastive_batch import ContrastiveBatch
from recbole_asarrec.recipe.denoised_batch import keep, sequences


class KnowsNoise(AsarSASRec):
    """AsarSASRec that is told which training items are noise, and uses it nowhere yet."""

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        if dataset.noise is None:
            raise UserError("Views that know the noise need some; set --noise_ratio.")
        self.register_buffer("noise", torch.from_numpy(dataset.noise.pairs), persistent=False)  # sorted

    def is_noise(self, users: Tensor, items: Tensor) -> Tensor:
        """Which items ``[B, n]`` of users ``[B]`` are noise, bool."""
        pairs = users[:, None] * self.n_items + items
        at = torch.searchsorted(self.noise, pairs).clamp_max(len(self.noise) - 1)
        return (self.noise[at] == pairs) & (items > 0)

    def without_noise(self, batch: Any) -> Any:
        """The batch as if there were no noise in its sequences; one of fewer than two items stays whole."""
        sequence = sequences(batch, self.columns)  # [B, n+1]
        kept = (sequence > 0) & ~self.is_noise(batch[self.USER_ID], sequence)
        kept = torch.where(kept.sum(1, keepdim=True) < 2, sequence > 0, kept)
        return keep(batch, self.columns, sequence, kept)


class CleanViews(KnowsNoise):
    """Views are made of histories without their noise; the next-item loss is as ever."""

    def contrastive_batch(self, batch: Any) -> ContrastiveBatch | None:
        """Of the clean histories."""
        return super().contrastive_batch(self.without_noise(batch))


class CleanViewsAndTargets(CleanViews):
    """Noise is no target either; it stays in the histories, as it does when users are ranked for."""

    def recommendation_loss(self, batch: Any) -> Tensor:
        """Over the targets that are not noise."""
        columns = dict(batch.interaction)
        noise = self.is_noise(batch[self.USER_ID], batch[TARGETS])
        columns[TARGETS] = batch[TARGETS].masked_fill(noise, 0)
        return super().recommendation_loss(Interaction(columns))


class DisjointViews(AsarSASRec):
    """Each item is in one of the two views: nothing but what they mean makes them alike."""

    def draw_views(self, histories: ContrastiveBatch) -> ViewPair:
        """A random part of each history, and the rest; a history of one item is both."""
        items, length = histories.items, histories.length  # [R, n], [R]
        position = torch.arange(items.size(1), device=items.device).expand_as(items)
        real = items > 0
        turn = (torch.rand(len(items), device=items.device) * length).long()  # [R]
        here, there = (position == one[:, None] for one in (turn, (turn + 1) % length))
        one = (torch.rand(items.shape, device=items.device) < 0.5) & ~there | here
        whole = [part & real for part in (one, ~one | there)]  # neither is empty
        first, second = (build_view(items, torch.where(part, position, -1)) for part in whole)
        return ViewPair((first, second))


class Variant(NamedTuple):
    """What is trained.

    Attributes:
        keys: configuration beside what all share.
        model: AsarSASRec, or one of the classes above.
    """

    keys: Mapping[str, Any]
    model: type[AsarSASRec] = AsarSASRec


_CROP = {"augmentation": "crop"}
VARIANTS: Mapping[str, Variant] = {
    "no views": Variant({"augmentation": "none"}),
    "dropout alone": Variant({"augmentation": "dropout"}),
    **{
        name: Variant({"augmentation": name})
        for name in ("crop", "mask", "reorder", "insert", "substitute", "cl4srec", "random_matrix", "asar")
    },
    "crop, 30 %": Variant({**_CROP, "operation_ratio": 0.3}),
    "crop, 50 %": Variant({**_CROP, "operation_ratio": 0.5}),
    "mask, 50 %": Variant({"augmentation": "mask", "operation_ratio": 0.5}),
    "disjoint views": Variant({"augmentation": "dropout"}, DisjointViews),
    "crop, no noise in views": Variant(_CROP, CleanViews),
    "crop, no noise in views and targets": Variant(_CROP, CleanViewsAndTargets),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``bound``."""
    parser.description = __doc__
    parser.add_argument("--dataset", default="amazon-arts-18", help="a dataset (default: amazon-arts-18)")
    parser.add_argument("--data_path", default="dataset", help="folder above it (default: dataset)")
    parser.add_argument("--noise_ratio", type=float, default=0.2, help="share of noise (default: 0.2)")
    parser.add_argument("--epochs", type=int, default=20, help="epochs of each (default: 20)")
    parser.add_argument("--seed", type=int, default=2020, help="RecBole's seed (default: 2020)")
    parser.add_argument("--only", nargs="+", metavar="VARIANT", help=f"some of: {', '.join(VARIANTS)}")
    common.add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    chosen = arguments.only or list(VARIANTS)
    for name in chosen:
        if name not in VARIANTS:
            raise UserError(f"There is no variant '{name}'; there are {', '.join(VARIANTS)}.")
    for variant in VARIANTS.values():
        if variant.model is not AsarSASRec:
            compat.register_model(variant.model, AsarDataset, AsarTrainer)
    results: dict[str, dict[str, float]] = {}
    for name in chosen:
        results[name] = measure(VARIANTS[name], arguments)
        print(
            f"{name}: " + ", ".join(f"{key} {value:.4f}" for key, value in results[name].items()), flush=True
        )
        common.save(arguments.output, {"results": results})


def measure(variant: Variant, arguments: argparse.Namespace) -> dict[str, float]:
    """The best validation figures of one training; test data is not read."""
    keys = {
        "recipe": "paper",
        "noise_ratio": arguments.noise_ratio,
        "epochs": arguments.epochs,
        "eval_step": max(1, min(5, arguments.epochs)),
        **variant.keys,
    }
    spec = Spec(variant.model.__name__, arguments.dataset, arguments.seed, keys)
    with tempfile.TemporaryDirectory() as folder:
        data = {"data_path": str(Path(arguments.data_path).absolute())}
        record = run_spec(spec, Path(folder), data, test=False)
    return {**record.valid, "epoch": record.best_epoch + 1, "seconds": round(record.seconds, 1)}
