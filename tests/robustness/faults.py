"""Training in real processes that are killed, starved or crowded: nothing is lost, and they say why."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch
from robustness.playground import training_command, write_ring
from robustness.process import PATIENCE, Ended, free_port, kill, mounted, start, wait, workers
from tqdm import tqdm

from recbole_asarrec.training import checkpoint

_A_MINUTE = 60


class Outcome(NamedTuple):
    """One line of the campaign's table."""

    what: str
    figure: str
    passed: bool | None  # None: not tried
    detail: str = ""


def _result(ended: Ended, checkpoints: Path) -> dict[str, Any]:
    """What a finished run leaves behind: its test result and its weights."""
    if ended.code:
        raise ChildProcessError(f"training failed: {ended.last_line}")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", ended.shown)
    test = re.search(r"test result: .*", shown)
    states = [checkpoint.read(file) for file in checkpoints.glob("*.pth")]  # one, if all went well
    names = ("state_dict", "epoch", "best_valid_score", "optimizer")
    kept = [{name: state[name] for name in names} for state in states]
    return {"test": test.group() if test else None, "checkpoints": kept}


def equal(one: Any, two: Any) -> bool:
    """Whether nested containers of tensors and plain values are the same to the bit."""
    if isinstance(one, torch.Tensor):
        return isinstance(two, torch.Tensor) and torch.equal(one, two)
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(equal(one[k], two[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(two) and len(one) == len(two) and all(map(equal, one, two))
    return one == two


def survive_kills(folder: Path, kills: int, epochs: int = 12, seed: int = 0) -> list[Outcome]:
    """Kill runs at random moments, start them again, and compare each end with that of an unbroken run."""
    write_ring(folder / "dataset", "ring", users=600)
    keys = {"epochs": epochs, "state": "INFO", "stopping_step": epochs}

    def command(name: str) -> list[str]:
        return training_command("ring", checkpoint_dir=name, resume=True, **keys)

    whole = wait(start(command("whole"), folder))
    if whole is None:
        raise ChildProcessError("an unbroken run does not end")
    wanted = _result(whole, folder / "whole")
    rng, done, runs, same = random.Random(seed), 0, 0, 0
    with tqdm(total=kills, desc="kills") as bar:
        while done < kills:
            name = f"broken-{runs}"
            for _ in range(min(rng.randint(1, 6), kills - done)):
                if wait(start(command(name), folder), rng.uniform(0, whole.seconds)):
                    break  # it was faster
                done += 1
                bar.update()
            ended = wait(start(command(name), folder))
            runs += 1
            same += ended is not None and ended.code == 0 and equal(_result(ended, folder / name), wanted)
    return [
        Outcome("kills survived", f"{done}", same == runs, f"{runs} runs of {epochs} epochs"),
        Outcome("results equal to the bit", f"{same} of {runs}", same == runs, "weights, optimiser, metrics"),
    ]


def _says(what: str, ended: Ended | None, pattern: str) -> Outcome:
    if ended is None:
        return Outcome(what, "hangs", False)
    said = ended.says(pattern)
    return Outcome(what, f"exit {ended.code}" if said else "no sentence", said, ended.last_line)


def full_disk(folder: Path) -> Outcome:
    """Checkpoints on a disk of 2 MB."""
    write_ring(folder / "dataset", "wide", users=300, items=4000)
    with mounted(folder / "tiny", "size=2m") as reason:
        if reason:
            return Outcome("a disk of 2 MB", "–", None, reason)
        command = training_command("wide", checkpoint_dir="tiny", epochs=2, hidden_size=64)
        return _says("a disk of 2 MB", wait(start(command, folder)), "cannot be written|disk is full")


def read_only_folder(folder: Path) -> Outcome:
    """Checkpoints on a read-only disk."""
    write_ring(folder / "dataset", "ring")
    with mounted(folder / "sealed", "size=1m,ro") as reason:
        if reason:
            return Outcome("a read-only folder", "–", None, reason)
        command = training_command("ring", checkpoint_dir="sealed", epochs=1)
        return _says(
            "a read-only folder", wait(start(command, folder)), "cannot be written|cannot be used|read-only"
        )


def two_runs(folder: Path) -> Outcome:
    """Two runs of one command, at once, in one folder."""
    write_ring(folder / "dataset", "ring")
    command = training_command("ring", checkpoint_dir="shared", epochs=2, resume=True)
    ended = [wait(one) for one in [start(command, folder) for _ in range(2)]]
    files = list((folder / "shared").glob("*.pth"))
    fine = all(one is not None and one.code == 0 for one in ended) and len(files) == 2
    weights = [checkpoint.read(file)["state_dict"] for file in files]
    same = fine and equal(*weights)
    return Outcome("two runs in one folder", f"{len(files)} checkpoints", same, "equal" if same else "differ")


def _wait_for_run_file(folder: Path, processes: list[subprocess.Popen]) -> None:
    until = time.monotonic() + PATIENCE
    while not list(folder.glob("*.run")) and all(one.poll() is None for one in processes):
        if time.monotonic() > until:
            break
        time.sleep(0.05)


def worker_killed(folder: Path) -> Outcome:
    """One of two processes of a run is killed."""
    write_ring(folder / "dataset", "ring", users=600)
    command = training_command("ring", checkpoint_dir="team", epochs=200, nproc=2, port=free_port())
    parent = start(command, folder)
    _wait_for_run_file(folder / "team", [parent])
    if victims := workers(parent.pid):
        psutil.Process(victims[-1]).kill()
    ended = wait(parent, _A_MINUTE)
    outcome = _says("a worker killed", ended, "SIGKILL")
    return outcome._replace(figure=f"{ended.seconds:.0f} s" if ended and outcome.passed else outcome.figure)


def machine_lost(folder: Path) -> Outcome:
    """Of two machines, here two commands, one is gone."""
    write_ring(folder / "dataset", "ring", users=600)
    port = free_port()
    machines = [
        start(
            training_command(
                "ring", checkpoint_dir="far", epochs=200, nproc=1, world_size=2, group_offset=n, port=port
            ),
            folder,
        )
        for n in range(2)
    ]
    _wait_for_run_file(folder / "far", machines)
    kill(machines[1])
    ended = wait(machines[0], _A_MINUTE)
    outcome = _says("a machine lost", ended, "is gone")
    return outcome._replace(figure=f"{ended.seconds:.0f} s" if ended and outcome.passed else outcome.figure)


def out_of_memory(folder: Path) -> Outcome:
    """A model that does not fit into 8 GiB of address space."""
    write_ring(folder / "dataset", "ring")
    command = training_command("ring", epochs=1, hidden_size=60000)
    ended = wait(start(command, folder, limit=8 << 30))
    return _says("memory limit hit", ended, "not enough memory; lower train_batch_size")


def histories_streamed(folder: Path, count: int = 1_000_000) -> Outcome:
    """``recommend`` for many histories takes the memory that it takes for few."""
    write_ring(folder / "dataset", "ring")
    ended = wait(start(training_command("ring", epochs=1), folder))
    if ended is None or ended.code:
        return Outcome("histories streamed", "0", False, "no model to recommend with")
    (model,) = (folder / "saved").glob("*.pth")
    few, many = (_peak_of_recommending(folder, model, number) for number in (count // 100, count))
    detail = f"peak {many:.0f} MiB; {few:.0f} MiB for {count // 100:,}"
    return Outcome("histories streamed", f"{count:,}", many < few + 64, detail)


def _peak_of_recommending(folder: Path, model: Path, count: int) -> float:
    histories = folder / f"{count}.jsonl"
    with open(histories, "w", encoding="utf-8") as lines:
        lines.writelines(f'["i{n % 30}", "i{(n + 1) % 30}"]\n' for n in range(count))
    command = [sys.executable, "-c", _TELL_PEAK, "recommend", str(model), str(histories), "-k", "3"]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8"
    )
    return 1024 * float(done.stderr.splitlines()[-1]) if done.returncode == 0 else float("inf")


_TELL_PEAK = """
import sys
from recbole_asarrec.__main__ import main
from recbole_asarrec.experiments.machine import peak_memory_gib

code = main()
print(peak_memory_gib(), file=sys.stderr)
sys.exit(code)
"""
