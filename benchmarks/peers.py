"""``peers``: SASRec of RecTools on the split of this package, ranked by the same code.

RecTools needs packages of its own, so it runs in another environment: ``pip install "rectools[torch]"``
there, and name its Python. Every setting is tried once on validation data; the best is trained with further
seeds, and each of its runs is tested.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from recbole.data import create_dataset, data_preparation
from tqdm import tqdm

from benchmarks import common
from recbole_asarrec.data.rows import FIRST, START
from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments.ranks import metrics
from recbole_asarrec.experiments.records import Spec
from recbole_asarrec.experiments.run import configure

_SIZE = {
    "n_blocks": 2,
    "n_heads": 2,
    "n_factors": 64,
    "loss": "softmax",
    "batch_size": 128,
}  # as RecBole's SASRec
SCRIPT = Path(__file__).with_name("rectools_sasrec.py")
TRIED = {"session_max_len": [50, 200], "dropout_rate": [0.2, 0.5], "lr": [0.001, 0.003]}
_BEST = 20  # items that a user is recommended


class Peer(NamedTuple):
    """One training.

    Attributes:
        setting: what was chosen of :data:`TRIED`.
        seed: of torch and NumPy.
        curve: ``epoch``, ``seconds`` and ``ndcg@10`` on validation of each epoch.
        test: HR and NDCG at 10 and 20 by protocol.
    """

    setting: Mapping[str, Any]
    seed: int
    curve: list[dict[str, float]]
    test: dict[str, dict[str, float]]

    @property
    def validation(self) -> float:
        """The best NDCG@10."""
        return max(entry["ndcg@10"] for entry in self.curve)


def sequences_of(dataset: str, data_path: str) -> dict[str, list[str]]:
    """Every tested user's items in their order, as RecBole splits them: the last is for test."""
    config = configure(Spec("AsarSASRec", dataset, 2020, {"augmentation": "none"}), data_path=data_path)
    whole = create_dataset(config)
    test = data_preparation(config, whole)[2]._dataset
    rows, items = test.inter_feat, test.inter_feat.histories.fields[test.item_id_list_field].numpy()
    users = test.id2token(test.uid_field, rows[test.uid_field].numpy())
    first, length = rows[FIRST].tolist(), rows[test.item_list_length_field].tolist()
    target = [begins + count for begins, count in zip(rows[START].tolist(), length)]
    return {
        str(user): [str(item) for item in test.id2token(test.iid_field, items[begins : end + 1])]
        for user, begins, end in zip(users, first, target)
        if end - begins > 1
    }


def train(
    python: str,
    sequences: Mapping[str, list[str]],
    seed: int,
    setting: Mapping[str, Any],
    options: Any,
    bar: tqdm,
) -> Peer:
    """Train in the other environment and rank what it recommends.

    Raises:
        UserError: it failed there.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = {"seed": seed, "model": {**_SIZE, **setting}, **options}
        (folder / "options.json").write_text(json.dumps(asked))
        shown = {user: items[:-1] for user, items in sequences.items()}
        (folder / "sequences.json").write_text(json.dumps(shown))
        curve = []
        for entry in _epochs(python, folder):
            curve.append(entry)
            bar.set_postfix_str(f"epoch {entry['epoch']}, valid ndcg@10 {entry['ndcg@10']:.4f}")
        targets = {user: items[-1] for user, items in sequences.items()}
        found = read_ranks(folder / "top.csv", targets)
    return Peer(setting, seed, curve, {name: metrics(rank, [10, 20]) for name, rank in found.items()})


def _epochs(python: str, folder: Path) -> Iterator[dict[str, float]]:
    with (
        (folder / "errors").open("w+") as errors,
        subprocess.Popen(
            [python, str(SCRIPT), str(folder)], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as peer,
    ):
        assert peer.stdout is not None
        for line in peer.stdout:
            yield json.loads(line)
        if peer.wait():
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["it said nothing"])[-1]
            raise UserError(f"RecTools failed in '{python}': {last}")


def read_ranks(file: Path, targets: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The rank of each user's test item by protocol, ``[U]``; beyond the recommended ones, one more."""
    ranks = {name: dict.fromkeys(targets, _BEST + 1) for name in ("all_items", "unseen_items")}
    with file.open(newline="") as lines:
        for line in csv.DictReader(lines):
            if targets[line["user"]] == line["item"]:
                protocol = "unseen_items" if line["without_history"] == "True" else "all_items"
                ranks[protocol][line["user"]] = int(line["rank"])
    return {name: np.array(list(found.values())) for name, found in ranks.items()}


def settings() -> list[dict[str, Any]]:
    """Every combination of what is tried."""
    return [dict(zip(TRIED, values)) for values in product(*TRIED.values())]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``peers``."""
    parser.description = __doc__
    parser.add_argument("--dataset", default="ml-100k", help="name of a dataset (default: ml-100k)")
    parser.add_argument("--data_path", default="dataset", help="folder above it (default: dataset)")
    parser.add_argument("--python", required=True, help="the Python of an environment with RecTools")
    parser.add_argument("--epochs", type=int, default=300, help="at most so many (default: 300)")
    parser.add_argument("--patience", type=int, default=20, help="epochs without a gain (default: 20)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of the best setting (default: 3)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: 1)")
    common.add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    sequences = sequences_of(arguments.dataset, str(Path(arguments.data_path).absolute()))
    options = {"epochs": arguments.epochs, "patience": arguments.patience, "threads": arguments.threads}
    tried: list[Peer] = []
    with tqdm(total=len(settings()) + arguments.seeds - 1, unit="run") as bar:

        def one(setting: Mapping[str, Any], seed: int) -> Peer:
            peer = train(arguments.python, sequences, seed, setting, options, bar)
            bar.update()
            return peer

        tried = [one(setting, 2020) for setting in settings()]
        best = max(tried, key=lambda peer: peer.validation)
        runs = [best, *(one(best.setting, 2020 + more) for more in range(1, arguments.seeds))]
    content = {
        "dataset": arguments.dataset,
        "users": len(sequences),
        "options": options,
        "model": _SIZE,
        "trials": [{"setting": peer.setting, "validation": peer.validation} for peer in tried],
        "runs": [{**peer._asdict(), "validation": peer.validation} for peer in runs],
    }
    common.save(arguments.output, content)
    print(as_text(runs))


def as_text(runs: list[Peer]) -> str:
    """The tested runs as Markdown."""
    seconds = median(entry["seconds"] for peer in runs for entry in peer.curve)
    lines = [
        ", ".join(f"{key} {value}" for key, value in runs[0].setting.items()) + f", {seconds:.1f} s an epoch",
        "",
        "| ranked | HR@10 | HR@20 | NDCG@10 | NDCG@20 |",
        "|---|---|---|---|---|",
    ]
    for protocol, words in (("all_items", "all items"), ("unseen_items", "without the history")):
        cells = []
        for metric in ("hit@10", "hit@20", "ndcg@10", "ndcg@20"):
            values = [peer.test[protocol][metric] for peer in runs]
            spread = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.4f}{spread}")
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
