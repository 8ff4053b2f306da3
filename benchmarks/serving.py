"""``serving``: the example service under load, by real HTTP on loopback: p50, p99, requests a second."""

from __future__ import annotations

import argparse
import http.client
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from recbole.config import Config
from recbole.utils import get_model
from tqdm import tqdm

from benchmarks import common
from recbole_asarrec.errors import UserError
from recbole_asarrec.export import export_model
from recbole_asarrec.serving.folder import INDEX, read_manifest, read_tokens

APP = common.ROOT / "examples" / "serve" / "app.py"
_ADDRESS = re.compile(r"running on http://([\d.]+):(\d+)")
_START = 60  # seconds in which a server must be up
_TIMEOUT = 30  # seconds in which a request must be answered


class Catalogue:
    """The little that an untrained model asks of its dataset."""

    def __init__(self, num_items: int, max_length: int) -> None:
        self.field2seqlen, self._size = {"item_id_list": max_length}, num_items + 1

    def num(self, field: str) -> int:
        """How many items there are, with padding."""
        return self._size


def write_untrained(folder: Path, num_items: int, ann: bool = False, **keys: Any) -> None:
    """Export an AsarSASRec with random weights: exact search takes as long whatever was learned."""
    typed, sys.argv = sys.argv, sys.argv[:1]  # RecBole reads the command line too
    try:
        settings = {"item_init": "random", "augmentation": "none", "state": "ERROR", **keys}
        config = Config("AsarSASRec", "ml-100k", config_dict=settings)
    finally:
        sys.argv = typed
    config["device"] = torch.device("cpu")
    torch.manual_seed(0)
    model = get_model("AsarSASRec")(config, Catalogue(num_items, config["MAX_ITEM_LIST_LENGTH"]))
    described = {"model": "AsarSASRec, untrained", "dataset": f"{num_items:,} items"}
    export_model(model, [f"i{number}" for number in range(num_items)], folder, described, ann)


class Service:
    """The example's server in a process of its own, on a free port of loopback.

    Args:
        folder: what it serves.
        arguments: more of its command line.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, str(APP), str(folder), "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        self.said: list[str] = []
        self._up = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._up.wait(_START)
        found = _ADDRESS.search("".join(self.said))
        if found is None:
            self.process.kill()
            raise UserError(f"The server did not start: {''.join(self.said)[-1000:]}")
        self.host, self.port = found[1], int(found[2])

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.said.append(line)
            if _ADDRESS.search(line):
                self._up.set()
        self._up.set()

    def connect(self) -> http.client.HTTPConnection:
        """A new connection to it."""
        return http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        code = self.process.wait(_TIMEOUT + 30)
        self._reader.join(5)
        return code


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Service]:
    """A server that ends with the block."""
    service = Service(folder, *arguments)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
        service.wait()


class Load(NamedTuple):
    """What clients saw.

    Attributes:
        seconds: of each answered request.
        duration: from the first request to the last answer.
        refused: answers that were not 200.
        lost: requests that were sent and not answered.
        closed: connections that the server asked to close, in an answer.
    """

    seconds: list[float]
    duration: float
    refused: int
    lost: int
    closed: int

    def summary(self) -> dict[str, Any]:
        """Percentiles in milliseconds, and requests a second."""
        p50, p99 = np.percentile(np.array(self.seconds) * 1000, (50, 99)) if self.seconds else (None, None)
        return {
            "requests": len(self.seconds),
            "requests_per_s": round(len(self.seconds) / self.duration, 1),
            "p50_ms": round(float(p50), 2),
            "p99_ms": round(float(p99), 2),
            "refused": self.refused,
            "lost": self.lost,
        }


def put_load(
    service: Service,
    bodies: Sequence[bytes],
    clients: int,
    requests: int,
    limit: float,
    half_way: Callable[[], object] | None = None,
) -> Load:
    """Send requests over kept connections until so many were answered, the time is up, or the server closes.

    Args:
        service: who gets them.
        bodies: what is sent, in turns.
        clients: connections at once.
        requests: at most so many in all.
        limit: seconds.
        half_way: called when half of the requests have been sent.
    """
    began, lock = time.perf_counter(), threading.Lock()
    seconds: list[float] = []
    count = {"sent": 0, "refused": 0, "lost": 0, "closed": 0}

    def work() -> None:
        connection = service.connect()
        while True:
            with lock:
                if count["sent"] >= requests or time.perf_counter() - began > limit:
                    break
                number = count["sent"]
                count["sent"] += 1
            if half_way is not None and number == requests // 2:
                half_way()
            start = time.perf_counter()
            try:
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/recommend", bodies[number % len(bodies)], headers)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                with lock:
                    count["lost"] += 1
                break
            with lock:
                seconds.append(time.perf_counter() - start)
                count["refused"] += answer.status != 200
                count["closed"] += answer.will_close
            if answer.will_close:
                break
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    duration = time.perf_counter() - began
    return Load(seconds, duration, count["refused"], count["lost"], count["closed"])


def make_bodies(tokens: Sequence[str], batch: int, count: int = 200, longest: int = 50) -> list[bytes]:
    """Requests of ``batch`` random histories each."""
    rng = np.random.default_rng(0)

    def history() -> list[str]:
        return [tokens[item] for item in rng.integers(len(tokens), size=rng.integers(1, longest + 1))]

    return [json.dumps({"histories": [history() for _ in range(batch)]}).encode() for _ in range(count)]


def measure(folder: Path, arguments: argparse.Namespace, search: str) -> dict[str, Any]:
    """Load one server by each size of batch, and end it under load."""
    manifest = read_manifest(folder)
    tokens = read_tokens(manifest)
    result: dict[str, Any] = {
        "model": manifest.content["model"],
        "num_items": manifest.num_items,
        "search": search,
        "batches": {},
    }
    if search == "ann":
        result["recall"] = manifest.content["index"]["recall"]
    with serving(folder, *(["--ann"] if search == "ann" else [])) as service:
        for batch in arguments.batches:
            bodies = make_bodies(tokens, batch)
            put_load(service, bodies, arguments.clients, 50, arguments.seconds)  # warm
            load = put_load(service, bodies, arguments.clients, arguments.requests, arguments.seconds)
            result["batches"][batch] = load.summary()
        count = 20 * arguments.clients
        last = put_load(service, bodies, arguments.clients, count, float("inf"), service.terminate)
        result["on_sigterm"] = {
            "answered": len(last.seconds),
            "refused": last.refused,
            "lost": last.lost,
            "exit_code": service.wait(),
        }
    return result


def as_text(results: Sequence[Mapping[str, Any]]) -> str:
    """The table in Markdown."""
    lines = [
        "| items | search | histories a request | p50 ms | p99 ms | requests/s | histories/s "
        "| lost on SIGTERM |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in results:
        end = one["on_sigterm"]
        search = one["search"]
        if "recall" in one:
            search += f" (recall@{one['recall']['k']} {one['recall']['value']:.3f})"
        for batch, row in one["batches"].items():
            lines.append(
                f"| {one['num_items']:,} | {search} | {batch} | {row['p50_ms']:.1f} | {row['p99_ms']:.1f} "
                f"| {row['requests_per_s']:.0f} | {row['requests_per_s'] * int(batch):.0f} "
                f"| {end['lost']} of {end['answered'] + end['lost']:,} |"
            )
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``serving``."""
    parser.add_argument("--folder", type=Path, nargs="+", default=[], help="exported models to serve")
    parser.add_argument(
        "--items",
        type=int,
        nargs="*",
        default=[12_101, 1_000_000],
        help="untrained models of so many items, by exact search (default: 12101 1000000)",
    )
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[1, 32], help="histories a request (default: 1 32)"
    )
    parser.add_argument("--clients", type=int, default=8, help="connections at once (default: 8)")
    parser.add_argument("--requests", type=int, default=5000, help="at most, a row (default: 5000)")
    parser.add_argument("--seconds", type=float, default=30, help="at most, a row (default: 30)")
    common.add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    with tempfile.TemporaryDirectory() as scratch:
        jobs: list[tuple[Path, str]] = []
        for folder in arguments.folder:
            jobs.append((folder, "exact"))
            if read_manifest(folder).has(INDEX):
                jobs.append((folder, "ann"))
        for number in arguments.items:
            folder = Path(scratch) / str(number)
            write_untrained(folder, number)
            jobs.append((folder, "exact"))
        results = [measure(folder, arguments, search) for folder, search in tqdm(jobs, unit="server")]
    print(as_text(results))
    common.save(arguments.output, {"clients": arguments.clients, "servers": results})
