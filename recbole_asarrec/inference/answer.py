"""From windows of histories to windows of results, in order, on every core.

A window is answered by one thread, whichever process does it: the same window gives the same bytes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from typing import NamedTuple

import torch

from recbole_asarrec.inference.histories import parse
from recbole_asarrec.inference.recommender import Recommender
from recbole_asarrec.inference.results import results_of
from recbole_asarrec.inference.window import Layout, Window

_FEW = 16  # windows that are not worth starting processes for
_AHEAD = 2  # windows on their way, for each process
_MOST_ON_WINDOWS = 61  # processes that it can wait for


class Question(NamedTuple):
    """What is asked of every history.

    Attributes:
        checkpoint: file of the model.
        layout: of the histories.
        kind: format of the results.
        k: items for each history.
        exclude_history: leave out what is in the history.
        unknown: ``skip`` or ``refuse`` items that training never saw.
        trust_checkpoint: load a checkpoint that runs code when opened.
    """

    checkpoint: str
    layout: Layout
    kind: str
    k: int
    exclude_history: bool = False
    unknown: str = "skip"
    trust_checkpoint: bool = False


class Answer(NamedTuple):
    """The results of a window.

    Attributes:
        body: its part of the output.
        histories: how many there were.
        skipped: items that training never saw.
        empty: histories without a known item.
    """

    body: bytes
    histories: int
    skipped: int
    empty: int


class Answerer:
    """Answers windows, one at a time.

    Args:
        question: what is asked.
        model: of the question's checkpoint.
    """

    def __init__(self, question: Question, model: Recommender) -> None:
        self._question, self._model = question, model
        self._results = results_of(question.kind, model.tokens)

    def __call__(self, window: Window) -> Answer:
        """Parse, recommend and format."""
        asked, model = self._question, self._model
        users, known, skipped = [], [], 0
        for user, items in parse(window, asked.layout):
            ids = model.known(items, asked.unknown)
            users.append(user)
            known.append(ids)
            skipped += len(items) - len(ids)
        best = model.best(known, asked.k, asked.exclude_history)
        empty = sum(not ids for ids in known)
        return Answer(self._results.format(users, best), len(known), skipped, empty)


def answers(
    question: Question, model: Recommender, windows: Iterable[Window], processes: int
) -> Iterator[tuple[Window, Answer]]:
    """Answer windows in their order, a bounded number of them at a time.

    Args:
        question: what is asked.
        model: of the question's checkpoint.
        windows: as they are read.
        processes: how many answer; one is this one, as are few windows and a GPU.
    """
    source = iter(windows)
    first = list(islice(source, _FEW + 1))
    if processes == 1 or len(first) <= _FEW or model.device.type != "cpu":
        answer = Answerer(question, model)
        for window in chain(first, source):
            with one_thread():
                found = answer(window)
            yield window, found
        return
    with _pool(question, processes) as pool:
        waiting: deque[tuple[Window, Future[Answer]]] = deque()
        for window in chain(first, source):
            waiting.append((window, pool.submit(_answer, window)))
            if len(waiting) > _AHEAD * processes:
                window, coming = waiting.popleft()
                yield window, coming.result()
        for window, coming in waiting:
            yield window, coming.result()


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, torch computes with one thread; how threads share a sum changes its last digits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _pool(question: Question, processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that answer a question; they end with this one, however it ends."""
    if sys.platform == "linux":  # elsewhere a process that has loaded torch may not be forked
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])  # imports once, for all
    else:
        context = multiprocessing.get_context("spawn")
    processes = min(processes, _MOST_ON_WINDOWS) if os.name == "nt" else processes
    pool = ProcessPoolExecutor(processes, context, _start, (question,))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_answerer: Answerer | None = None  # of a process of the pool


def _start(question: Question) -> None:
    global _answerer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first process's affair
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    model = Recommender(question.checkpoint, "cpu", question.trust_checkpoint, mapped=True)
    _answerer = Answerer(question, model)


def _end_with_parent() -> None:
    """A pool's processes wait for work that never comes if the process that started them is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(window: Window) -> Answer:
    if _answerer is None:
        sys.exit("This process answers no question.")
    return _answerer(window)
