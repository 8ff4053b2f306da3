"""What the machine cannot do is said in a sentence with exit code 1; a bug keeps its traceback."""

import errno
import subprocess
from concurrent.futures.process import BrokenProcessPool

import pytest
import torch
from robustness.faults import out_of_memory
from robustness.playground import training_command, write_ring
from robustness.process import free_port
from torch.multiprocessing import ProcessExitedException

from recbole_asarrec.errors import UserError
from recbole_asarrec.exit_codes import run_command


def killed(code):
    return ProcessExitedException("gone", error_index=1, error_pid=7, exit_code=code)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (UserError("Your mistake."), 2, "Error: Your mistake.\n"),
        (
            MemoryError(),
            1,
            "not enough memory; lower train_batch_size, eval_batch_size, MAX_ITEM_LIST_LENGTH",
        ),
        (torch.OutOfMemoryError("CUDA out of memory"), 1, "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 1, "not enough memory"),
        (
            OSError(errno.ENOSPC, "No space left on device", "saved/x"),
            1,
            "'saved/x' cannot be used: the disk is full",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "A file cannot be written: the disk is full"),
        (BrokenProcessPool("gone"), 1, "A process was ended from outside, .* lower --jobs"),
        (PermissionError(errno.EACCES, "Permission denied", "saved"), 1, "you may not write there"),
        (RuntimeError("write failed: No space left on device"), 1, "the disk is full"),
        (RuntimeError("[gloo] Connection closed by peer"), 1, "A process of the run is gone, .* Go on so."),
        (killed(-9), 1, "Process 1 of the run was ended by SIGKILL, and the others with it. Go on so."),
        (killed(2), 2, "^$"),
        (KeyboardInterrupt(), 130, "^Stopped. Go on so."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_each_failure_has_its_sentence(error, code, says, capsys):
    import re

    def fails():
        raise error

    assert run_command(fails, lambda: "Go on so.") == code
    shown = capsys.readouterr().err
    assert re.search(says, shown) and shown.count("\n") <= 1


def test_a_bug_is_not_hidden():
    def fails():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        run_command(fails)
    assert run_command(lambda: None) == 0


def test_a_real_limit_of_memory(workplace):
    outcome = out_of_memory(workplace)
    assert outcome.passed, outcome


def test_a_mistake_in_several_processes_is_said_without_traceback(workplace):
    """The workers find it; the process that started them must not answer with a pile of tracebacks."""
    write_ring(workplace / "dataset", "ring")
    command = training_command("ring", epochs=1, temperature=0, nproc=2, port=free_port())
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "Error: The key 'temperature' must be a number greater than 0" in done.stderr
