"""Fuzzing: whatever bytes a reader is given, it answers or refuses in words.

A target takes bytes and must return, or raise a UserError. With atheris installed (``pip install atheris``)
the search is guided by coverage, in a process of its own; without it, the corpus is mutated at random. Inputs
that once broke a target are kept in the corpus and tried first, ever after.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from helpers import ROOT
from tqdm import tqdm

from recbole_asarrec.augment.sinkhorn import mutual_argmax, semi_sinkhorn
from recbole_asarrec.compat.config import plain_value
from recbole_asarrec.config.recbole_keys import check_recbole_keys
from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.config.yaml_file import parse_yaml
from recbole_asarrec.data import atomic_file
from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments.grid import read_grid
from recbole_asarrec.inference.histories import parse, text_source
from recbole_asarrec.prepare.command import FORMATS, read_interactions
from recbole_asarrec.prepare.formats import Reading, choose
from recbole_asarrec.prepare.writer import write_inter
from recbole_asarrec.training import checkpoint

CORPUS = ROOT / "tests" / "robustness" / "corpus"
_TABS: Any = {"field_separator": "\t", "encoding": None}


def _as_file(read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """A target that reads a file made of the bytes."""

    def target(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "input"
            file.write_bytes(data)
            read(file)

    return target


def _read_atomic(file: Path) -> None:
    fields = atomic_file.read_header(file, "\t", "utf-8")
    assert fields and all(fields)
    error = atomic_file.explain_unreadable([file], _TABS, ValueError("pandas"))
    assert "\n" not in str(error)
    with contextlib.suppress(UnicodeError):  # pandas has read the file before rows are counted
        assert atomic_file.count_rows(file, "\t", "utf-8") >= 0


def _read_raw(file: Path) -> None:
    """`prepare` on a publisher's file: what it writes, RecBole's reader finds again, row by row."""
    with contextlib.suppress(UserError):
        choose(file, FORMATS, None)
    for known in FORMATS.values():
        with contextlib.suppress(UserError):
            interactions, _ = read_interactions(Reading(file, known))
            written = file.with_suffix(".inter")
            write_inter(interactions, written, labelled=False)
            assert atomic_file.count_rows(written, "\t", "utf-8") == len(interactions)


def _read_configuration(data: bytes) -> None:
    keys = parse_yaml(data, "It")
    with contextlib.suppress(UserError):
        AsarSettings.read({**vars(AsarSettings()), **keys})
    check_recbole_keys({"eval_args": {}, "metrics": ["Hit"], "topk": [1], "valid_metric": "Hit@1", **keys})


def _read_argument(data: bytes) -> None:
    value = plain_value(data.decode("utf-8", "surrogateescape"))
    assert value is None or isinstance(value, (bool, int, float, str, list, tuple, dict))


def _read_history(data: bytes) -> None:
    for kind in (".jsonl", ".csv"):
        lines = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")
        with contextlib.suppress(UserError):
            source = text_source(lines, "it", kind)
            for window in source.windows:
                for user, items in parse(window, source.layout):
                    assert isinstance(user, str) and all(isinstance(item, str) for item in items)


def _normalise(data: bytes) -> None:
    """Semi-Sinkhorn of a matrix of any non-negative floats: finite, sums of at most one, finite gradient."""
    numbers = np.frombuffer(data[: len(data) // 4 * 4], dtype=np.float32)
    size = min(int(len(numbers) ** 0.5), 12)
    if not size:
        return
    raw = np.nan_to_num(np.abs(numbers[: size * size]), nan=0.0, posinf=1e30, neginf=0.0)
    scores = torch.from_numpy(raw.reshape(1, size, size).clip(0, 1e30)).requires_grad_()
    valid = torch.from_numpy(np.frombuffer(data[:size], dtype=np.uint8) % 4 > 0)[None]
    soft = semi_sinkhorn(scores, valid, rounds=1 + data[0] % 12, threshold=data[-1] / 64)
    assert soft.isfinite().all() and (soft >= 0).all()
    assert (soft.sum(1) <= 1 + 1e-4).all(), "a column holds more than one item"
    soft.square().sum().backward()
    assert scores.grad is not None and scores.grad.isfinite().all()
    placed = mutual_argmax(soft.detach())[0]
    items = placed[placed >= 0]
    assert len(items) == len(items.unique()), "an item is placed twice"


# to fuzz another reader, add it here and give it a first input in tests/robustness/corpus/<name>/
TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "atomic": _as_file(_read_atomic),
    "raw": _as_file(_read_raw),
    "configuration": _read_configuration,
    "grid": _as_file(read_grid),
    "argument": _read_argument,
    "histories": _read_history,
    "checkpoint": _as_file(checkpoint.read),
    "sinkhorn": _normalise,
}


def attempt(name: str, data: bytes) -> str | None:
    """What a target raised that it should not have, or nothing."""
    try:
        TARGETS[name](data)
    except UserError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def seeds(name: str, corpus: Path = CORPUS) -> list[bytes]:
    """The inputs kept for a target."""
    folder = corpus / name
    return [file.read_bytes() for file in sorted(folder.iterdir())] if folder.is_dir() else []


_PIECES = [
    b"\t",
    b"\n",
    b"\r\n",
    b"\0",
    b'"',
    b":",
    b",",
    b"&a",
    b"*a",
    b"!!",
    b"[",
    b"]",
    b"{",
    b"}",
    b"\xff",
]
_PIECES += [b"1e999", b"nan", b"-1", b"\xef\xbb\xbf", "é🎬".encode(), b"user_id:token", b"float", b"\\u0000"]


def mutations(inputs: Iterable[bytes], rng: random.Random) -> Iterator[bytes]:
    """Endless variations: bytes flipped, pieces put in, parts cut, doubled and joined."""
    known = list(inputs) or [b""]
    while True:
        data = bytearray(rng.choice(known))
        for _ in range(rng.randint(1, 8)):
            place = rng.randint(0, len(data))
            length = rng.randint(0, 16)
            kind = rng.randrange(6)
            if kind == 0 and data:
                data[place % len(data)] = rng.randrange(256)
            elif kind == 1:
                data[place:place] = rng.choice(_PIECES)
            elif kind == 2:
                del data[place : place + length]
            elif kind == 3:
                data[place:place] = data[place : place + length] * rng.randint(1, 4)
            elif kind == 4:
                data[place:] = rng.choice(known)[place:]
            else:
                data[place:place] = rng.randbytes(length)
        yield bytes(data[:100_000])


def fuzz(name: str, count: int, seed: int = 0, guided: bool = False, corpus: Path = CORPUS) -> dict[str, Any]:
    """Try the corpus of a target and ``count`` more inputs, ``guided`` by coverage where atheris is there.

    Returns:
        How many were tried, how they were made, and up to ten that broke the target.
    """
    kept = seeds(name, corpus)
    broken = {data.hex(): said for data in kept if (said := attempt(name, data))}
    if guided and importlib.util.find_spec("atheris"):
        tried, how, more = _guided(name, count, seed, corpus)
    else:
        made = mutations(kept, random.Random(seed))
        more = {}
        for _ in tqdm(range(count), desc=f"fuzz {name}", leave=False):
            data = next(made)
            if said := attempt(name, data):
                more[data.hex()] = said
        tried, how = count, "mutations of the corpus"
    found = [{"input": data, "raised": said} for data, said in {**broken, **more}.items()]
    return {"tried": len(kept) + tried, "by": how, "findings": found[:10]}


def _guided(name: str, count: int, seed: int, corpus: Path) -> tuple[int, str, dict[str, str]]:
    """Let atheris search in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        job = {"target": name, "corpus": str(corpus / name), "scratch": folder, "runs": count, "seed": seed}
        command = [sys.executable, "-m", "robustness.guided", json.dumps(job)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
        crashes = {}
        for file in Path(folder).glob("crash-*"):
            data = file.read_bytes()
            crashes[data.hex()] = attempt(name, data) or "crashed the process"
        if done.returncode and not crashes:
            crashes[""] = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        runs = re.findall(r"^#(\d+)", done.stderr, re.M) + re.findall(r"Done (\d+)", done.stderr)
        return max(map(int, runs), default=0), "coverage (atheris)", crashes
