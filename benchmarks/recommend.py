"""``recommend``: the command beside the plain loop over ``full_sort_predict``, and beside a bare product.

The plain loop is what a user of RecBole writes: read a batch of histories, pad them to L, call stock SASRec's
``full_sort_predict``, take the best items, write them. The bare product is what no way of ranking exactly can
do without: one multiplication of a batch's vectors with those of all items. All three have every core, and
both files are JSON lines. The command runs as a process of its own at two sizes; what it takes for a history
is the difference of their times over the difference of their histories, so that starting it does not count,
and its peak memory at both sizes shows that it does not grow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import psutil
import torch
from recbole.config import Config
from recbole.data import create_dataset
from recbole.data.interaction import Interaction
from recbole.utils import get_model
from tqdm import tqdm

from benchmarks import common
from benchmarks.contenders import CONTENDERS
from recbole_asarrec.errors import UserError
from recbole_asarrec.training import checkpoint
from recbole_asarrec.training.set_up import set_up

_BATCH = 512  # histories of the plain loop and of the bare product
_K = 10
_PRODUCTS = 40  # bare products that are timed in a round
_SMALLER = 10  # the smaller size is the whole divided by this
_PLAIN = 100_000  # histories of the plain loop, at most
_LOOK_EVERY = 0.1  # seconds between looks at memory


class Setting:
    """A checkpoint, stock SASRec with its weights, and the histories of a dataset's users.

    Args:
        dataset: name of a dataset.
        data_path: folder above it.
    """

    def __init__(self, dataset: str, data_path: str) -> None:
        keys = {"data_path": data_path, "state": "ERROR", "show_progress": False}
        config = Config("AsarSASRec", dataset, config_dict=keys)
        run = set_up(config, create_dataset(config))
        rows = run.train._dataset
        self.tokens = [str(token) for token in rows.field2id_token[rows.iid_field]]
        self.longest: int = config["MAX_ITEM_LIST_LENGTH"]
        self.state = {
            "config": config.final_config_dict,
            "state_dict": run.model.state_dict(),
            "other_parameter": run.model.other_parameter(),
            "item_tokens": self.tokens,
        }
        stock_name, stock_keys, _ = CONTENDERS["RecBole SASRec"]
        stock = Config(stock_name, dataset, config_dict={**keys, **stock_keys})
        self.stock = get_model(stock_name)(stock, rows).eval()
        own = run.model.state_dict()
        self.stock.load_state_dict({name: own[name] for name in self.stock.state_dict()})
        held_out = run.test._dataset.inter_feat
        items, length = (held_out[name] for name in (rows.item_id_list_field, rows.item_list_length_field))
        self.histories = [
            [self.tokens[one] for one in ids[:n]] for ids, n in zip(items.tolist(), length.tolist())
        ]

    def write(self, folder: Path, count: int) -> Path:
        """A file of so many histories, the users' again and again."""
        path = folder / f"{count}.jsonl"
        lines = [json.dumps({"user": str(n), "history": one}) + "\n" for n, one in enumerate(self.histories)]
        with open(path, "w", encoding="utf-8") as file:
            for _ in range(count // len(lines)):
                file.writelines(lines)
            file.writelines(lines[: count % len(lines)])
        return path


@torch.no_grad()
def plain_loop(setting: Setting, source: Path, target: Path) -> float:
    """Seconds of the loop that a user of RecBole writes, from file to file."""
    ids = {token: number for number, token in enumerate(setting.tokens)}
    model, tokens = setting.stock, setting.tokens
    began = perf_counter()
    with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as sink:
        while batch := [json.loads(line) for line in islice(lines, _BATCH)]:
            rows = torch.zeros(len(batch), setting.longest, dtype=torch.long)
            length = torch.zeros(len(batch), dtype=torch.long)
            for number, one in enumerate(batch):
                known = [ids[token] for token in one["history"] if token in ids][-setting.longest :]
                rows[number, : len(known)] = torch.tensor(known)
                length[number] = len(known)
            scores = model.full_sort_predict(
                Interaction({model.ITEM_SEQ: rows, model.ITEM_SEQ_LEN: length})
            )  # [B, V]
            scores[:, 0] = -torch.inf
            value, item = scores.topk(_K)
            for one, best, figures in zip(batch, item.tolist(), value.tolist()):
                record = {"user": one["user"], "items": [tokens[n] for n in best], "scores": figures}
                sink.write(json.dumps(record) + "\n")
    return perf_counter() - began


@torch.no_grad()
def bare_product(setting: Setting) -> float:
    """Seconds a history of nothing but the product with all items' vectors."""
    items = setting.stock.item_embedding.weight
    users = torch.randn(_BATCH, items.size(1))
    scores = torch.empty(_BATCH, len(items))
    torch.mm(users, items.T, out=scores)
    began = perf_counter()
    for _ in range(_PRODUCTS):
        torch.mm(users, items.T, out=scores)
    return (perf_counter() - began) / _PRODUCTS / _BATCH


def run_command(words: Sequence[str]) -> tuple[float, float]:
    """Seconds and peak memory in MiB, summed over its processes, of a command.

    Pages that processes share count once where the system tells (Linux), and in each process elsewhere.
    """
    began, peak = perf_counter(), 0.0
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    root = psutil.Process(process.pid)
    while process.poll() is None:
        with suppress(psutil.Error):
            peak = max(peak, sum(map(_memory, [root, *root.children(recursive=True)])))
        sleep(_LOOK_EVERY)
    seconds = perf_counter() - began
    if process.returncode:
        raise UserError(f"The command failed: {process.communicate()[1].strip()}")
    return seconds, peak / 2**20


def _memory(process: psutil.Process) -> float:
    try:
        found = process.memory_full_info()
    except psutil.Error:
        return 0.0
    return float(getattr(found, "pss", 0) or found.rss)


def measure(setting: Setting, folder: Path, count: int, kind: str) -> dict[str, Any]:
    """One round: every figure of :func:`summarise`."""
    plain = min(count // _SMALLER, _PLAIN)
    sample, few, many = (setting.write(folder, number) for number in (plain, count // _SMALLER, count))
    checkpoint.write(setting.state, folder / "model.pth")
    found: dict[str, Any] = {
        "plain_s": plain_loop(setting, sample, folder / "plain.jsonl") / plain,
        "product_s": bare_product(setting),
    }
    for name, source in (("few", few), ("many", many)):
        target = folder / f"{name}{kind}"
        words = ["-m", "recbole_asarrec", "recommend", str(folder / "model.pth"), str(source)]
        words += ["-o", str(target), "-k", str(_K), "--overwrite"]
        found[f"{name}_s"], found[f"{name}_mib"] = run_command([sys.executable, *words])
    found["command_s"] = (found["many_s"] - found["few_s"]) / (count - count // _SMALLER)
    return found


def summarise(rounds: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Medians over rounds of µs a history, of ratios within a round, and of peak memory."""
    us = {name: 1e6 * median(one[f"{name}_s"] for one in rounds) for name in ("plain", "command", "product")}
    return {
        "us_per_history": us,
        "plain_by_command": median(one["plain_s"] / one["command_s"] for one in rounds),
        "command_by_product": median(one["command_s"] / one["product_s"] for one in rounds),
        "peak_mib": {name: median(one[f"{name}_mib"] for one in rounds) for name in ("few", "many")},
        "seconds_for_all": median(one["many_s"] for one in rounds),
    }


def as_text(summary: Mapping[str, Any], count: int) -> str:
    """The figures as a Markdown table."""
    us, peak = summary["us_per_history"], summary["peak_mib"]
    return "\n".join(
        [
            "| | µs a history | ÷ bare product | peak MiB |",
            "|---|---|---|---|",
            f"| bare product with all items | {us['product']:.1f} | 1 | |",
            f"| `recommend`, {count // _SMALLER:,} histories | | | {peak['few']:.0f} |",
            f"| `recommend`, {count:,} histories | {us['command']:.1f} | {summary['command_by_product']:.2f} "
            f"| {peak['many']:.0f} |",
            f"| plain loop over `full_sort_predict` | {us['plain']:.1f} "
            f"| {summary['command_by_product'] * summary['plain_by_command']:.2f} | |",
            "",
            f"Plain loop ÷ `recommend`: {summary['plain_by_command']:.2f}",
        ]
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``recommend``."""
    common.add_arguments(parser)
    parser.add_argument(
        "--histories", type=int, default=1_000_000, help="histories of the larger size (default: 1000000)"
    )
    parser.add_argument(
        "--format",
        choices=("jsonl", "csv", "parquet"),
        default="jsonl",
        help="of the results (default: jsonl)",
    )


@contextmanager
def _elsewhere() -> Iterator[Path]:
    """An empty folder as the current one: RecBole writes its logs there. Its keys are not ours."""
    typed, sys.argv, here = sys.argv, sys.argv[:1], os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(here)
            sys.argv = typed


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    if arguments.histories < 1000:
        raise UserError(f"--histories must be at least 1000, but is {arguments.histories}.")
    path = str(Path(arguments.data_path).absolute())
    count, kind = arguments.histories, f".{arguments.format}"
    with _elsewhere() as folder:
        setting = Setting(arguments.dataset, path)
        rounds = [measure(setting, folder, count, kind) for _ in tqdm(range(arguments.rounds), unit="round")]
    summary = summarise(rounds)
    print(as_text(summary, count))
    shape = {"dataset": arguments.dataset, "items": len(setting.tokens) - 1, "histories": count, "k": _K}
    lengths = [len(one) for one in setting.histories]
    shape["mean_history"] = round(sum(lengths) / len(lengths), 2)
    common.save(arguments.output, {**shape, "format": arguments.format, **summary, "rounds": rounds})
