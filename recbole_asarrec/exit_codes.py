"""How a command ends: 0, 2 for a user's mistake, 1 for what the machine could not do, said in a sentence."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool

import torch
from torch.multiprocessing import ProcessExitedException

from recbole_asarrec.errors import UserError
from recbole_asarrec.files import use_utf8_streams

_LESS_MEMORY = "train_batch_size, eval_batch_size, MAX_ITEM_LIST_LENGTH or hidden_size"
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "std::bad_alloc")
_NO_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket Timeout")
_DISK = {
    errno.ENOSPC: "the disk is full; make room or choose another folder",
    errno.EDQUOT: "your quota is used up; make room or choose another folder",
    errno.EROFS: "the disk is read-only; choose another folder",
    errno.EACCES: "you may not write there; choose another folder",
    errno.EPERM: "you may not write there; choose another folder",
    errno.EIO: "the disk does not answer; choose another folder",
}


def explain(error: BaseException) -> str | None:
    """The sentence for what the machine could not do; nothing for what may be the program's fault."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _mentions(error, _NO_MEMORY):
        return f"There is not enough memory; lower {_LESS_MEMORY}."
    if isinstance(error, BrokenProcessPool):
        return (
            "A process was ended from outside, most often because there is too little memory; lower --jobs."
        )
    if isinstance(error, torch.distributed.DistNetworkError) and "EADDRINUSE" in str(error):
        return "Another run uses the port; choose another --port."
    if isinstance(error, OSError) and error.errno in _DISK:
        file = f"The file '{error.filename}' cannot be used" if error.filename else "A file cannot be written"
        return f"{file}: {_DISK[error.errno]}."
    if _mentions(error, (os.strerror(errno.ENOSPC),)):  # torch hides the number of the system's error
        return f"A file cannot be written: {_DISK[errno.ENOSPC]}."
    return None


def explain_lost_process(error: BaseException) -> str | None:
    """The sentence for a run that lost one of its processes."""
    if isinstance(error, ProcessExitedException) and not 0 <= error.exit_code < 256:
        name = _cause(error.exit_code)
        return f"Process {error.error_index} of the run was ended by {name}, and the others with it."
    return "A process of the run is gone, so this one ends too." if _mentions(error, _NO_PEER) else None


def _cause(code: int) -> str:
    """What ended a process: a signal, or under Windows a status."""
    if code >= 0:
        return f"status {code:#x}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _mentions(error: BaseException, phrases: tuple[str, ...]) -> bool:
    return isinstance(error, (RuntimeError, OSError)) and any(phrase in str(error) for phrase in phrases)


def run_command(action: Callable[[], object], go_on: Callable[[], str] = str) -> int:
    """Run ``action``, say in one sentence what went wrong and in another how to go on; give the exit code."""
    use_utf8_streams()
    try:
        action()
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if isinstance(error, ProcessExitedException) and 0 < error.exit_code < 256:
            return error.exit_code  # that process has said why
        lost = explain_lost_process(error)
        said = f"{lost} {go_on()}".rstrip() if lost else explain(error)
        if said is None:
            raise
        print(f"Error: {said}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"Stopped. {go_on()}".rstrip(), file=sys.stderr)
        return 130
    return 0
