"""One run in a process of its own, so that memory is its own and a crash takes nothing else along.

On Linux processes are forked from a server that has imported RecBole once: a run starts in milliseconds.
Elsewhere each is spawned and imports it anew.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments.records import Spec

Job = tuple[dict[str, Any], str, dict[str, Any], bool, "int | None"]


def start(
    spec: Spec, folder: Path, keys: dict[str, Any], test: bool, threads: int | None
) -> Iterator[tuple[str, Any]]:
    """Run ``spec`` and yield what happens, on so many threads if any are said.

    Yields:
        ``("epoch", entry)`` after each validation, then ``("record", line)``, or ``("error", text)`` where
        the run failed.
    """
    processes = _context()
    receiver, sender = processes.Pipe(duplex=False)
    job: Job = (asdict(spec), str(folder), keys, test, threads)
    process = processes.Process(target=_work, args=(job, sender), daemon=True)
    process.start()
    sender.close()
    try:
        kind = ""
        while kind not in ("record", "error"):
            kind, content = receiver.recv()
            if kind == "record":
                process.join()
            yield kind, content
    except EOFError:
        process.join()
        yield "error", f"the process ended with code {process.exitcode}"
    finally:
        process.kill()


def _context() -> Any:
    # macOS has a fork server too, but its own libraries do not survive a fork
    if sys.platform == "darwin" or "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["recbole_asarrec.experiments.run"])
    return processes


def _end_with_parent() -> None:
    """End at once when the process that started this one does, however it does."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _work(job: Job, sender: Connection) -> None:
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides

    import torch

    from recbole_asarrec.experiments.run import run
    from recbole_asarrec.kernels.malloc import keep_freed_memory

    keep_freed_memory()
    spec, folder, keys, test, threads = job
    if threads:
        torch.set_num_threads(threads)
    sys.argv = sys.argv[:1]  # RecBole reads the command line
    with (
        open(os.devnull, "wb") as nowhere,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
    ):
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        os.chdir(scratch)  # RecBole writes its logs into the current folder
        try:
            record = run(Spec(**spec), Path(folder), keys, test, lambda entry: sender.send(("epoch", entry)))
            sender.send(("record", record.to_json()))
        except UserError as error:
            sender.send(("error", str(error)))
        except Exception as error:
            Path(folder, "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
            sender.send(("error", f"{type(error).__name__}: {error} (see {Path(folder, 'error.txt')})"))
        finally:
            logging.shutdown()  # Windows removes no open file
            os.chdir(Path(scratch).anchor)  # nor the current folder
