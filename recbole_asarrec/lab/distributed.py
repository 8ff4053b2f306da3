"""Runs over Ray: several at once, on one machine or many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Callable

from recbole_asarrec.lab.records import Record, RunFailed, Spec


def has_ray() -> bool:
    """Whether Ray is installed and imports; beside other packages than its own it fails in many ways."""
    try:
        import ray
    except Exception:
        return False
    return hasattr(ray, "remote")


def over_ray(
    waiting: Sequence[Spec], work: Callable[[Spec], Record], jobs: int
) -> Iterator[tuple[Spec, Record | RunFailed]]:
    """Do ``jobs`` runs at once and yield each as it ends.

    Ray's workers find the results folder and the data by path, so on several machines both lie on a common
    disk.
    """
    import ray

    ray.init(ignore_reinit_error=True, log_to_driver=False, configure_logging=False)
    share = max(int(ray.cluster_resources().get("CPU", 1)) // jobs, 1)

    @ray.remote(num_cpus=share, max_retries=0)
    def remote(spec: Spec) -> str:
        return work(spec).to_json()

    running = {remote.remote(spec): spec for spec in waiting}
    while running:
        (ready,), _ = ray.wait(list(running), num_returns=1)
        spec = running.pop(ready)
        try:
            yield spec, Record.from_json(ray.get(ready))
        except ray.exceptions.RayError as error:
            yield spec, RunFailed(str(getattr(error, "cause", error)))
    ray.shutdown()
