"""The same campaign over Ray: several runs at once, on one machine or many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from recbole_asarrec.errors import UserError
from recbole_asarrec.lab.campaign import RunFailed, do, finished
from recbole_asarrec.lab.records import Record, Spec, append


def campaign(
    specs: Sequence[Spec], folder: Path, keys: Mapping[str, Any], jobs: int
) -> tuple[dict[str, Record], list[RunFailed]]:
    """:func:`recbole_asarrec.lab.campaign.campaign` with ``jobs`` runs at once.

    Ray's workers share the results folder and the data by path, so on several machines both lie on a common
    disk; records are added by this process alone.
    """
    try:
        import ray
    except ImportError as error:
        raise UserError("--jobs needs Ray: pip install 'ray>=2.6', or leave --jobs out.") from error
    ray.init(ignore_reinit_error=True, log_to_driver=False, configure_logging=False)
    share = max(int(ray.cluster_resources().get("CPU", 1)) // jobs, 1)

    @ray.remote(num_cpus=share, max_retries=0)
    def remote(spec: Spec) -> str:
        return do(spec, folder.absolute(), keys, True, lambda entry: None).to_json()

    done = finished(folder)
    failures: list[RunFailed] = []
    waiting = {remote.remote(spec): spec for spec in specs if spec.run not in done}
    with tqdm(total=len(specs), initial=len(specs) - len(waiting), unit="run") as bar:
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            spec = waiting.pop(ready)
            try:
                record = Record.from_json(ray.get(ready))
            except ray.exceptions.RayError as error:
                failures.append(RunFailed(str(getattr(error, "cause", error))))
                continue
            append(record, folder)
            done[spec.run] = record
            bar.update()
    ray.shutdown()
    return {spec.run: done[spec.run] for spec in specs if spec.run in done}, failures
