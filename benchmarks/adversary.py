"""``adversary``: does learning make views harder than chance does?

AsarRec's augmenter climbs InfoNCE by a straight-through gradient. Whether that gradient leads up cannot be
seen while the recommender learns too, so here the recommender is a trained one and stands still. A new
augmenter learns on it by InfoNCE alone, up as in training and down as the opposite, by each of three
estimators of the gradient, and its views are measured beside random ones of the same budget, on the same
batches: with the dropout of training and without. All contrast whole histories, one of a user.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, product, repeat
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from recbole.data import create_dataset, data_preparation
from tqdm import tqdm

from benchmarks import common
from benchmarks.estimators import ESTIMATORS, Estimator
from recbole_asarrec.augment import Augmenter, MatrixViews
from recbole_asarrec.compat import restore_config
from recbole_asarrec.errors import CheckpointError, UserError
from recbole_asarrec.models import AsarRec
from recbole_asarrec.models.contrastive_batch import ContrastiveBatch
from recbole_asarrec.training import checkpoint as checkpoints

RANDOM = "random matrices"
LEARNED = {f"{name}, {way}": (name, way == "up") for name in ESTIMATORS for way in ("up", "down")}
_RATE = 1e-3  # RecBole's learning_rate
_KEYS = {  # of the model that stands still: its weights come from the checkpoint, and InfoNCE counts as it is
    "augmentation": "asar",
    "contrastive_weight": 1.0,
    "gradient_reversal": 1.0,
    "candidates": "uniform",  # any item into any position: nothing but the gradient says what goes where
    "logit_limit": 0.0,  # learning goes as far as its gradient leads
    "ema_decay": 0.0,
    "item_init": "random",
}


def load(path: str, data_path: str | None) -> tuple[AsarRec, Any]:
    """The recommender of a checkpoint, with an augmenter that has learned nothing, and its training batches.

    Raises:
        CheckpointError: it is of another kind of model.
    """
    state = checkpoints.read(path)
    config = restore_config(state["config"])
    if not issubclass(config.model_class, AsarRec):
        raise CheckpointError(f"The checkpoint '{path}' is of {config['model']}; name one of an Asar model.")
    for key, value in _KEYS.items():
        config[key] = value
    if data_path is not None:
        config["data_path"] = str(Path(data_path).absolute() / config["dataset"])
    train, _, _ = data_preparation(config, create_dataset(config))
    model = config.model_class(config, train._dataset).to(config["device"])
    new = {name: value for name, value in model.state_dict().items() if name.startswith("augmenter.")}
    old = {name: value for name, value in state["state_dict"].items() if not name.startswith("augmenter.")}
    checkpoints.load_into(model, {**state, "state_dict": {**old, **new}}, path)
    return model, train


def new_augmenter(model: AsarRec, augmentation: str, matrices: type[Augmenter] = Augmenter) -> MatrixViews:
    """One that has learned nothing."""
    settings = replace(model.settings, augmentation=augmentation)
    size = model.item_embedding.embedding_dim
    made = MatrixViews(settings, size, model.n_items, model.max_seq_length)
    made.matrices = matrices(settings, size)
    return made.to(model.item_embedding.weight.device)


def take(model: AsarRec, batch: Any) -> ContrastiveBatch:
    """The longest history of each user of a batch."""
    longest_last = batch[model.ITEM_SEQ_LEN].argsort(stable=True).tolist()
    row_of = {int(batch[model.USER_ID][row]): row for row in longest_last}
    rows = torch.tensor(sorted(row_of.values()), device=batch[model.ITEM_SEQ].device)
    taken = ContrastiveBatch.take(batch, rows, model.columns, model.settings)
    return taken._replace(per_position=False)


@torch.no_grad()
def measure(model: AsarRec, batches: Sequence[Any], seed: int) -> dict[str, Any]:
    """Means over histories, by a random stream of their own."""
    total, kept, items, histories = 0.0, torch.zeros(2), 0, 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for batch in batches:
            pairs = take(model, batch)
            contrast = model.contrast(pairs, model.draw_views(pairs))
            position = torch.arange(pairs.items.size(1), device=pairs.items.device)
            for view, matrix in enumerate(contrast.views.matrices or ()):
                kept[view] += int(((matrix.source == position) & (pairs.items > 0)).sum())
            total += float(contrast.infonce) * contrast.pairs
            histories += contrast.pairs
            items += int(pairs.length.sum())
    return {"infonce": total / histories, "in_place": (kept / items).tolist()}


def learn(model: AsarRec, batches: Iterable[Any], estimator: Estimator, up: bool, bar: tqdm) -> None:
    """Train the augmenter alone, a step a batch."""
    optimizer = torch.optim.Adam(model.augmenter.parameters(), lr=_RATE)
    for batch in batches:
        loss = estimator.loss(model, take(model, batch))
        optimizer.zero_grad()
        (-loss if up else loss).backward()
        optimizer.step()
        bar.update()


def study(
    model: AsarRec,
    train: Any,
    steps: int,
    measured: int,
    rounds: int,
    bar: tqdm,
    learned: Iterable[str] = tuple(LEARNED),
) -> Iterator[dict[str, Any]]:
    """Yield the figures of each kind of view, with dropout and without; each round has a random start."""
    model.requires_grad_(False)
    device = model.item_embedding.weight.device
    endless = (batch.to(device) for batch in chain.from_iterable(repeat(train)))
    batches = list(islice(endless, measured))
    for number, dropout, name in product(range(rounds), (True, False), (RANDOM, *learned)):
        torch.manual_seed(number)
        model.train(dropout)
        if name == RANDOM:
            model.augmenter = new_augmenter(model, "random_matrix")
        else:
            bar.set_description(name)
            estimator, up = ESTIMATORS[LEARNED[name][0]], LEARNED[name][1]
            model.augmenter = new_augmenter(model, "asar", estimator.matrices)
            learn(model, islice(endless, steps), estimator, up, bar)
        yield {"round": number, "dropout": dropout, "views": name, **measure(model, batches, number)}


def as_text(rows: Iterable[dict[str, Any]]) -> str:
    """The table as Markdown: means over rounds, InfoNCE with the range."""
    kinds: dict[tuple[bool, str], list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault((row["dropout"], row["views"]), []).append(row)
    lines = ["| dropout | views | InfoNCE | in place, first view | second view |", "|---|---|---|---|---|"]
    for (dropout, name), found in kinds.items():
        contrast = [row["infonce"] for row in found]
        one, two = (mean(shares) for shares in zip(*(row["in_place"] for row in found)))
        lines.append(
            f"| {'yes' if dropout else 'no'} | {name} | {mean(contrast):.2f} "
            f"({min(contrast):.2f}–{max(contrast):.2f}) | {one:.0%} | {two:.0%} |"
        )
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``adversary``."""
    parser.add_argument("checkpoint", help="a .pth file of a trained Asar model, whatever its augmentation")
    parser.add_argument("--data_path", help="folder above its dataset (default: where it was trained)")
    parser.add_argument("--steps", type=int, default=500, help="of learning, each way (default: 500)")
    parser.add_argument("--rounds", type=int, default=3, help="of another random start each (default: 3)")
    parser.add_argument("--batches", type=int, default=40, help="to measure on (default: 40)")
    common.add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    for name in ("steps", "rounds", "batches"):
        if getattr(arguments, name) < 1:
            raise UserError(f"--{name} must be 1 or more, not {getattr(arguments, name)}.")
    model, train = load(arguments.checkpoint, arguments.data_path)
    steps, rounds = arguments.steps, arguments.rounds
    with tqdm(total=2 * len(LEARNED) * steps * rounds, unit="step") as bar:
        rows = list(study(model, train, steps, arguments.batches, rounds, bar))
    print(as_text(rows))
    names = {"model": type(model).__name__, "dataset": train._dataset.dataset_name}
    common.save(arguments.output, {**names, "rows": rows})
