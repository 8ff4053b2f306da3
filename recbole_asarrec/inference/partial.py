"""Results that grow window by window and can be resumed after any interruption.

``<output>.partial`` holds the windows that are done, ``<output>.partial.json`` how many bytes of it count,
which histories they answer and how they were asked for. What was written after that is done again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

from recbole_asarrec.errors import UserError
from recbole_asarrec.files import Lock, atomic_write, remove_parts
from recbole_asarrec.inference.answer import Answer
from recbole_asarrec.inference.results import Results
from recbole_asarrec.inference.window import Window

_SAVE_EVERY = 2.0  # seconds


@dataclass
class Progress:
    """What is done.

    Attributes:
        settings: what results depend on beside the histories.
        windows: how many are done.
        digest: of these windows, so that a change of the histories is noticed.
        size: bytes of their results.
        histories: how many are done.
        skipped: items that training never saw.
        empty: histories without a known item.
        finished: whether these are all.
    """

    settings: dict[str, Any]
    windows: int = 0
    digest: str = ""
    size: int = 0
    histories: int = 0
    skipped: int = 0
    empty: int = 0
    finished: bool = False


class PartialOutput:
    """A file of results that is being made, held by one process; a context manager.

    Args:
        target: the file it becomes.
        settings: what results depend on beside the histories, by the name that a message gives it.
        results: the format.
        overwrite: start again where the results so far do not fit.
        resumes: keep the results of an interrupted process; of histories that cannot be read again, do not.

    Attributes:
        part: the file of results so far.
        progress: what is done.
        kept: histories of which the results outlast this process.
    """

    kept = 0

    def __init__(
        self,
        target: Path,
        settings: Mapping[str, Any],
        results: Results,
        overwrite: bool,
        resumes: bool = True,
    ) -> None:
        self._target, self._results = target, results
        self._overwrite, self.resumes = overwrite, resumes
        self.part, self._state = partial_files(target)
        self._settings = dict(settings)
        self._lock = Lock(self.part)

    def __enter__(self) -> PartialOutput:
        if not self._lock.acquire(wait=False):
            raise UserError(f"Another process is writing '{self._target}'; wait for it or name another file.")
        try:
            for path in (self._state, self._target):
                remove_parts(path)
            found = self._resumed()
            self._file = open(self.part, "r+b" if found else "wb")
            if found:
                self._file.seek(found.size)
                self._file.truncate()
                self.progress, self._digest, self._saved = found, hashlib.sha256(), monotonic()
                self.kept = found.histories
            else:
                self._begin()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _resumed(self) -> Progress | None:
        """What an interrupted process has left, if anything is of use."""
        found = read_progress(self._target)
        if found is None or not self.part.is_file() or self.part.stat().st_size < found.size:
            return None
        now = self._settings
        other = [name for name in {**found.settings, **now} if found.settings.get(name) != now.get(name)]
        if other and not self._overwrite:
            raise UserError(
                f"'{self.part}' holds the results of {found.histories:,} histories for another "
                f"{' and another '.join(other)}; repeat that command to finish it, or add --overwrite to "
                "start again."
            )
        return found if self.resumes and not other else None

    def _begin(self) -> None:
        self.progress, self.kept = Progress(self._settings), 0
        self._digest = hashlib.sha256()
        self._file.seek(0)
        self._file.truncate()
        self._file.write(self._results.header)
        self._saved = monotonic() - _SAVE_EVERY  # the first window is saved at once

    def check(self, windows: Iterable[Window]) -> None:
        """Compare the histories that are done with those of now.

        Args:
            windows: from the first on.

        Raises:
            UserError: they have changed; where overwriting is allowed, everything starts again instead.
        """
        done = 0
        for window in islice(windows, self.progress.windows):
            self._digest.update(window.body)
            done += 1
        if done == self.progress.windows and self._digest.hexdigest() == self.progress.digest:
            return
        if not self._overwrite:
            raise UserError(
                f"The histories have changed since {self.progress.histories:,} of them were answered in "
                f"'{self.part}'; put them back, or add --overwrite to start again."
            )
        self._begin()

    def add(self, window: Window, answer: Answer) -> None:
        """Append the results of the next window."""
        self._file.write(answer.body)
        self._digest.update(window.body)
        done = self.progress
        done.windows += 1
        done.histories += answer.histories
        done.skipped += answer.skipped
        done.empty += answer.empty
        if monotonic() - self._saved >= _SAVE_EVERY:
            self._save()

    def _save(self, finished: bool = False) -> None:
        """Make what is written last, then say so."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self.progress.size, self.progress.digest = self._file.tell(), self._digest.hexdigest()
        self.progress.finished = finished
        with atomic_write(self._state) as file:
            json.dump(asdict(self.progress), file)
        self._saved, self.kept = monotonic(), self.progress.histories

    def finish(self) -> None:
        """Turn what is done into the target."""
        self._save(finished=True)
        self._file.close()
        self._results.finish(self.part, self._target)
        self._state.unlink()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with suppress(OSError):  # a full disk
                self._file.close()
            if kind is not None and not (self.resumes and self.kept):
                for path in (self.part, self._state):
                    path.unlink(missing_ok=True)
        finally:
            self._lock.release()


def partial_files(target: Path) -> tuple[Path, Path]:
    """The files of unfinished results and of their progress."""
    part = target.with_name(f"{target.name}.partial")
    return part, part.with_name(f"{part.name}.json")


def is_done(target: Path) -> bool:
    """Whether a process was killed when it had only to remove the file of its progress; this does it."""
    part, state = partial_files(target)
    found = read_progress(target)
    if found is None or not found.finished or part.exists() or not target.is_file():
        return False
    with Lock(part):
        state.unlink(missing_ok=True)
    return True


def read_progress(target: Path) -> Progress | None:
    """What is done of a target that was interrupted; nothing where there is none, or none of ours."""
    try:
        return Progress(**json.loads(partial_files(target)[1].read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
