"""Runs over Ray: several at once, on one machine or many."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from recbole_asarrec.experiments.records import Record, RunFailed, Spec

Show = Callable[[Spec, Mapping[str, Any]], None]  # is given a run and the newest entry of its curve
_SECONDS_BETWEEN_LOOKS = 0.5


def has_ray() -> bool:
    """Whether Ray is installed and imports; beside other packages than its own it fails in many ways."""
    try:
        import ray
    except Exception:
        return False
    return hasattr(ray, "remote")


def cpus_for_each(machines: Sequence[int], jobs: int) -> float:
    """The most CPUs that each of ``jobs`` runs can have at once, on machines with so many.

    A run is on one machine; where there are more runs than CPUs, each has a part of one.
    """
    for cpus in range(max(machines), 0, -1):
        if sum(there // cpus for there in machines) >= jobs:
            return cpus
    return 1 / ceil(jobs / max(sum(machines), 1))


def over_ray(
    waiting: Sequence[Spec], work: Callable[..., Record], jobs: int, show: Show
) -> Iterator[tuple[Spec, Record | RunFailed]]:
    """Do ``jobs`` runs at once, show their epochs and yield each as it ends.

    Ray is given a run only when another has ended: it lends the CPUs of one that waits for the queue, and
    would start more. Its workers find the results folder and the data by path, so on several machines both
    lie on a common disk.
    """
    import ray
    from ray.util.queue import Queue

    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would wait for all else on the machine
    ray.init(ignore_reinit_error=True, log_to_driver=False, configure_logging=False)
    machines = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    cpus = cpus_for_each(machines, jobs)
    epochs = Queue(actor_options={"num_cpus": 0})

    @ray.remote(num_cpus=cpus, max_retries=0)
    def remote(spec: Spec) -> str | RunFailed:
        try:
            record = work(spec, threads=ceil(cpus), each_epoch=lambda entry: epochs.put((spec, entry)))
        except RunFailed as failure:  # its text is enough, without the traceback of a worker
            return RunFailed(str(failure))
        return record.to_json()

    todo = deque(waiting)
    running: dict[Any, Spec] = {}
    try:
        while todo or running:
            while todo and len(running) < jobs:
                spec = todo.popleft()
                running[remote.remote(spec)] = spec
            ready, _ = ray.wait(list(running), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
            for spec, entry in epochs.get_nowait_batch(epochs.qsize()):
                show(spec, entry)
            for ended in ready:
                spec = running.pop(ended)
                try:
                    outcome = ray.get(ended)
                except ray.exceptions.RayError as error:
                    outcome = RunFailed(str(getattr(error, "cause", error)))
                yield spec, Record.from_json(outcome) if isinstance(outcome, str) else outcome
    finally:
        ray.shutdown()
