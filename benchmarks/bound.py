"""``bound``: what could be won by choosing views at all, on validation data.

Views of every kind and rate, and views that know what no augmenter can: which items are noise. The best of
these bounds what an augmenter can win by its choice of items and operations. Beside them, AsarRec with other
objectives for its augmenter, and views as further rows of the next-item loss. An output file that exists is
resumed: variants that it has are not run again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from recbole.data.interaction import Interaction
from torch import Tensor

from benchmarks import common
from benchmarks.bandit import OperationBandit
from benchmarks.objectives import GradientAgreement, HardAgainstHistory, LabelPreserving
from recbole_asarrec import AsarDataset, AsarSASRec, AsarTrainer, compat
from recbole_asarrec.augment import ViewPair, build_view
from recbole_asarrec.data import TARGETS
from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments.records import Spec
from recbole_asarrec.experiments.run import run as run_spec
from recbole_asarrec.losses import every_prefix
from recbole_asarrec.models.contrastive_batch import ContrastiveBatch
from recbole_asarrec.models.training_step import Contrast, TrainingStep
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


class CleanTraining(KnowsNoise):
    """Trained on nothing but what is no noise; noise stays in the histories that users are ranked for."""

    def training_step(self, interaction: Any) -> TrainingStep:
        """Of the clean sequences."""
        return super().training_step(self.without_noise(interaction))


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


class ViewsPredict(AsarSASRec):
    """Views are rows of the next-item loss too: each must predict what follows its items in the history."""

    weight = 0.5  # of that loss

    def contrast(self, histories: ContrastiveBatch, views: ViewPair) -> Contrast:
        """As ever; the views' next-item loss is kept for :meth:`training_step`."""
        contrast = super().contrast(histories, views)
        row, n = torch.arange(len(histories.items), device=histories.items.device), histories.items.size(1)
        following = histories.items.roll(-1, 1)  # [R, n]
        following[row, histories.length - 1] = histories.target
        total = contrast.infonce.new_zeros(())
        for view in views.views:
            targets = following.gather(1, view.source.clamp(0, n - 1))
            real = (view.source >= 0) & (view.source < n)  # [R, m], P of them
            users = histories.users[:, None].expand_as(real)[real]
            encoded = self.encode(view.items, view.length, every_position=True)[real]  # [P, d]
            total = total + self.next_item(
                encoded,
                self.item_embedding,
                targets[real],
                history=lambda view=view, real=real: every_prefix(view.items)[real],
                negatives=lambda count, users=users: self.negatives(users, count),
            )
        self.predicted = total / 2
        return contrast

    def training_step(self, interaction: Any) -> TrainingStep:
        """With the views' next-item loss."""
        step = super().training_step(interaction)
        first, *rest = step.losses
        return step._replace(losses=(first + self.weight * self.predicted, *rest))


class CleanViewsPredict(ViewsPredict, CleanViews):
    """Views without noise are rows of the next-item loss too."""


Results = dict[str, dict[str, dict[str, float]]]  # validation figures by variant and seed
_FIRST_SEED = 2020


class Variant(NamedTuple):
    """What is trained.

    Attributes:
        keys: configuration beside what all share.
        model: AsarSASRec, or one of the classes above.
    """

    keys: Mapping[str, Any]
    model: type[AsarSASRec] = AsarSASRec


_CROP = {"augmentation": "crop"}
_JUDGED = {"augmentation": "asar", "gradient_reversal": 0.0}
_UNIFORM = {"candidates": "uniform"}
_SEMANTIC = {"semantic_weight": 5.0}
_LIGHT = {"contrastive_weight": 0.1}
_OPERATIONS = ["crop", "mask", "reorder", "insert", "substitute", "coserec_substitute"]
VARIANTS: Mapping[str, Variant] = {
    "no views": Variant({"augmentation": "none"}),
    "dropout alone": Variant({"augmentation": "dropout"}),
    **{
        name: Variant({"augmentation": name})
        for name in ("crop", "mask", "reorder", "insert", "substitute", "cl4srec", "random_matrix", "asar")
    },
    "random_matrix, no candidates": Variant({"augmentation": "random_matrix", "num_candidates": 0}),
    "asar, no candidates": Variant({"augmentation": "asar", "num_candidates": 0}),
    "crop, 30 %": Variant({**_CROP, "operation_ratio": 0.3}),
    "crop, 50 %": Variant({**_CROP, "operation_ratio": 0.5}),
    "mask, 50 %": Variant({"augmentation": "mask", "operation_ratio": 0.5}),
    "disjoint views": Variant({"augmentation": "dropout"}, DisjointViews),
    "coserec_substitute": Variant({"augmentation": "coserec_substitute"}),
    "coserec_substitute, 30 %": Variant({"augmentation": "coserec_substitute", "operation_ratio": 0.3}),
    "mask and coserec_substitute": Variant({"augmentation": ["mask", "coserec_substitute"]}),
    "random_matrix, uniform candidates": Variant({"augmentation": "random_matrix", **_UNIFORM}),
    "asar, uniform candidates": Variant({"augmentation": "asar", **_UNIFORM}),
    "asar, semantic weight 5": Variant({"augmentation": "asar", **_SEMANTIC}),
    "asar, as published": Variant({"augmentation": "asar", **_UNIFORM, **_SEMANTIC}),
    **{
        f"{name}, λ .1": Variant({"augmentation": name, **_LIGHT})
        for name in ("crop", "cl4srec", "coserec_substitute", "random_matrix", "asar")
    },
    "one of six operations": Variant({"augmentation": _OPERATIONS}),
    "one of six operations, by a bandit": Variant({"augmentation": _OPERATIONS}, OperationBandit),
    "learned to preserve the label": Variant(_JUDGED, LabelPreserving),
    "learned by gradient agreement": Variant(_JUDGED, GradientAgreement),
    "learned to be hard against the history": Variant(_JUDGED, HardAgainstHistory),
    "dropout alone, views predict": Variant({"augmentation": "dropout"}, ViewsPredict),
    "crop, views predict": Variant(_CROP, ViewsPredict),
    "mask, 50 %, views predict": Variant({"augmentation": "mask", "operation_ratio": 0.5}, ViewsPredict),
    "random_matrix, views predict": Variant({"augmentation": "random_matrix"}, ViewsPredict),
    "asar, views predict": Variant({"augmentation": "asar"}, ViewsPredict),
    "crop, no noise in views, views predict": Variant(_CROP, CleanViewsPredict),
    "no views, trained without noise": Variant({"augmentation": "none"}, CleanTraining),
    "crop, no noise in views": Variant(_CROP, CleanViews),
    "crop, no noise in views and targets": Variant(_CROP, CleanViewsAndTargets),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``bound``."""
    parser.description = __doc__
    parser.add_argument("--dataset", default="amazon-arts-18", help="a dataset (default: amazon-arts-18)")
    parser.add_argument("--data_path", default="dataset", help="folder above it (default: dataset)")
    parser.add_argument("--noise_ratio", type=float, default=0.2, help="share of noise (default: 0.2)")
    parser.add_argument("--recipe", default="paper", help="how all are trained (default: paper)")
    parser.add_argument("--epochs", type=int, default=20, help="epochs of each (default: 20)")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each (default: 1)")
    parser.add_argument(
        "--only", nargs="+", metavar="VARIANT", help=f"some of: {', '.join(VARIANTS)}".replace("%", "%%")
    )
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
    names = ("dataset", "noise_ratio", "recipe", "epochs")
    setting = {name: getattr(arguments, name) for name in names}
    results = earlier(arguments.output, setting)
    for seed in range(_FIRST_SEED, _FIRST_SEED + arguments.seeds):  # everything is compared once, early
        for name in chosen:
            found = results.setdefault(name, {})
            if str(seed) not in found:
                found[str(seed)] = measure(VARIANTS[name], seed, arguments)
                common.save(arguments.output, {**setting, "results": results})
            said = ", ".join(f"{key} {value:.4f}" for key, value in found[str(seed)].items())
            print(f"{name}, seed {seed}: {said}", flush=True)


def earlier(output: Path | None, setting: Mapping[str, Any]) -> Results:
    """The results of an output file that exists.

    Raises:
        UserError: they are of another setting.
    """
    if output is None or not output.is_file():
        return {}
    found = json.loads(output.read_text(encoding="utf-8"))
    if {name: found.get(name) for name in setting} != setting:
        raise UserError(f"'{output}' has results of another setting; name another file.")
    results: Results = found["results"]
    return results


def measure(variant: Variant, seed: int, arguments: argparse.Namespace) -> dict[str, float]:
    """The best validation figures of one training; test data is not read."""
    keys = {
        "recipe": arguments.recipe,
        "contrastive_weight": 0.3,
        "noise_ratio": arguments.noise_ratio,
        "noise_scope": "train_and_history",
        "exclude_history": True,
        "epochs": arguments.epochs,
        "eval_step": max(1, min(5, arguments.epochs)),
        **variant.keys,
    }
    spec = Spec(variant.model.__name__, arguments.dataset, seed, keys)
    with tempfile.TemporaryDirectory() as folder:
        data = {"data_path": str(Path(arguments.data_path).absolute())}
        record = run_spec(spec, Path(folder), data, test=False)
    return {**record.valid, "epoch": record.best_epoch + 1, "seconds": round(record.seconds, 1)}
