"""Many runs, one after another or some at once, each in a process of its own; no finished run is repeated."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from tqdm import tqdm

from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments import on_ray
from recbole_asarrec.experiments.machine import cores
from recbole_asarrec.experiments.records import RUNS, Record, RunFailed, Spec, append, read
from recbole_asarrec.experiments.worker import start
from recbole_asarrec.files import Lock

CHECKPOINTS = "checkpoints"
Outcome = tuple[Spec, "Record | RunFailed"]


def finished(folder: Path) -> dict[str, Record]:
    """Records of a results folder by run; none where there is no file yet."""
    return {record.spec.run: record for record in read(folder)} if (folder / RUNS).is_file() else {}


def name(spec: Spec) -> str:
    """A run in a few words, for people."""
    noise = f" noise {spec.noise_ratio:g}" if spec.noise_ratio else ""
    return f"{spec.model} {spec.augmentation} {spec.dataset}{noise} seed {spec.seed}"


def run_one(
    spec: Spec,
    folder: Path,
    keys: Mapping[str, Any],
    test: bool = True,
    threads: int | None = None,
    each_epoch: Callable[[dict[str, Any]], None] = lambda entry: None,
) -> Record:
    """Run in a process of its own, from where an earlier one stopped.

    Raises:
        RunFailed: with what went wrong.
    """
    home = folder.absolute() / CHECKPOINTS / spec.run
    home.mkdir(parents=True, exist_ok=True)
    for kind, content in start(spec, home, dict(keys), test, threads):
        if kind == "epoch":
            each_epoch(content)
        elif kind == "record":
            return Record.from_json(content)
        else:
            raise RunFailed(f"{name(spec)}: {content}")
    raise RunFailed(f"{name(spec)}: the process exited without a result")


def run_in_parallel(
    waiting: Sequence[Spec], work: Callable[..., Record], jobs: int, show: on_ray.Show
) -> Iterator[Outcome]:
    """Run ``jobs`` at a time and yield each as it ends; anything but a run's failure is raised."""
    todo, ended = SimpleQueue[Spec](), SimpleQueue[tuple[Spec, "Record | Exception"]]()
    for spec in waiting:
        todo.put(spec)

    def run_next() -> None:
        while True:
            try:
                spec = todo.get_nowait()
            except Empty:
                return
            try:
                ended.put((spec, work(spec, each_epoch=partial(show, spec))))
            except Exception as error:  # a thread that died in silence would be waited for
                ended.put((spec, error))

    for _ in range(jobs):
        Thread(target=run_next, daemon=True).start()  # daemons do not keep an interrupted grid alive
    for _ in waiting:
        spec, outcome = ended.get()
        if isinstance(outcome, Exception) and not isinstance(outcome, RunFailed):
            raise outcome
        yield spec, outcome


def how_to_resume() -> str:
    """What to type after many runs were stopped."""
    return "Finished runs and epochs are saved. The same command resumes."


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """The argument ``--jobs`` of commands that run a grid."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="runs at once, sharing the cores (default: 1); on Ray's machines where Ray is installed",
    )


def run_all(
    specs: Sequence[Spec],
    folder: Path,
    keys: Mapping[str, Any],
    test: bool = True,
    keep_weights: bool = True,
    jobs: int = 1,
) -> tuple[dict[str, Record], list[RunFailed]]:
    """Do what is not done yet.

    Args:
        specs: the runs.
        folder: results folder; records are added to it, by this process alone.
        keys: configuration that does not change results, as ``data_path``.
        test: False leaves the test data unread.
        keep_weights: keep the best weights of finished runs.
        jobs: runs at once, on Ray where that is installed. Each has its share of the cores.

    Returns:
        Records of all the runs, by run, and what failed.

    Raises:
        UserError: fewer jobs than one, or another process does runs in this folder.
    """
    if jobs < 1:
        raise UserError(f"--jobs must be at least 1, but is {jobs}.")
    with _alone_in(folder):
        return _run_all(specs, folder, keys, test, keep_weights, jobs)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Two processes would do the same runs, and remove each other's checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder / CHECKPOINTS)
    if not lock.acquire(wait=False):
        raise UserError(
            f"Another process is running a grid in '{folder}'; wait for it, or name another folder with -o."
        )
    try:
        yield
    finally:
        lock.release()


def _run_all(
    specs: Sequence[Spec], folder: Path, keys: Mapping[str, Any], test: bool, keep_weights: bool, jobs: int
) -> tuple[dict[str, Record], list[RunFailed]]:
    done = finished(folder)
    failures = []
    waiting = [spec for spec in specs if spec.run not in done]
    with tqdm(total=len(specs), initial=len(specs) - len(waiting), unit="run", dynamic_ncols=True) as bar:
        work = partial(run_one, folder=folder.absolute(), keys=keys, test=test)
        show = partial(_show, bar)
        if waiting:
            bar.set_description(name(waiting[0]))
        if jobs > 1 and on_ray.has_ray():
            outcomes = on_ray.over_ray(waiting, work, jobs, show)
        else:
            threads = None if jobs == 1 else max(cores() // jobs, 1)
            outcomes = run_in_parallel(waiting, partial(work, threads=threads), jobs, show)
        for spec, outcome in outcomes:
            if isinstance(outcome, RunFailed):
                failures.append(outcome)
                bar.write(f"Failed: {outcome}", file=sys.stderr)
                continue
            append(outcome, folder)
            done[spec.run] = outcome
            _tidy(folder / CHECKPOINTS / spec.run, keep_weights)
            bar.update()
    return {spec.run: done[spec.run] for spec in specs if spec.run in done}, failures


def _show(bar: tqdm, spec: Spec, entry: Mapping[str, Any]) -> None:
    valid = entry.get("valid", {})
    score = f"{valid['ndcg@10']:.4f}" if "ndcg@10" in valid else "–"
    bar.set_description(name(spec), refresh=False)
    bar.set_postfix_str(f"epoch {entry['epoch']}, valid ndcg@10 {score}")


def _tidy(home: Path, keep_weights: bool) -> None:
    if not keep_weights:
        shutil.rmtree(home, ignore_errors=True)
        return
    for path in home.iterdir():
        if path.suffix != ".pth":
            path.unlink()


def varying(specs: Iterable[Spec]) -> list[str]:
    """Keys beside augmentation and noise that some of the runs have otherwise than the rest."""
    every = [{key: repr(value) for key, value in spec.keys.items()} for spec in specs]
    names = dict.fromkeys(key for keys in every for key in keys if key not in ("augmentation", "noise_ratio"))
    return [key for key in names if len({keys.get(key) for keys in every}) > 1]


def own_keys(spec: Spec, names: Sequence[str]) -> str:
    """A run's values of these keys, for people: ``temperature 0.5, ema_decay 0``."""
    return ", ".join(f"{key} {spec.keys[key]}" for key in names if key in spec.keys)


def summary(records: Iterable[Record]) -> str:
    """Mean validation and test figures of each cell over its seeds, as Markdown."""
    every = list(records)
    names = varying(record.spec for record in every)
    cells: dict[tuple[Any, ...], list[Record]] = {}
    for record in every:
        spec = record.spec
        method = ", ".join(filter(None, (spec.augmentation, own_keys(spec, names))))
        cells.setdefault((spec.dataset, spec.model, method, spec.noise_ratio), []).append(record)
    lines = [
        "| dataset | model | augmentation | noise | seeds | valid NDCG@10 | test HR@10 | test NDCG@10 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (dataset, model, method, noise), found in cells.items():
        tests = [record.test.get("all_items", {}) for record in found]
        figures = [_mean([record.valid for record in found], "ndcg@10")]
        figures += [_mean(tests, "hit@10"), _mean(tests, "ndcg@10")]
        head = f"| {dataset} | {model} | {method} | {noise:g} | {len(found)} "
        lines.append(head + "".join(f"| {figure} " for figure in figures) + "|")
    return "\n".join(lines)


def _mean(results: Sequence[Mapping[str, float]], metric: str) -> str:
    values = [result[metric] for result in results if metric in result]
    return f"{sum(values) / len(values):.4f}" if values else "–"
