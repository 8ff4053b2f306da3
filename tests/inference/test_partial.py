"""``recommend`` killed at any moment: the same command ends with the bytes of a run that was not."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recbole_asarrec.__main__ import main
from recbole_asarrec.files import Lock
from recbole_asarrec.inference import answer, histories, parquet, partial

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process; Windows has none")


@pytest.fixture
def model(trained):
    (file,) = (trained / "saved").glob("*.pth")
    return str(file)


@pytest.fixture
def small_windows(monkeypatch):
    """Windows of four histories, each saved at once."""
    monkeypatch.setattr(histories, "WINDOW", 4)
    monkeypatch.setattr(parquet, "WINDOW", 4)
    monkeypatch.setattr(partial, "_SAVE_EVERY", 0)


def write_histories(path, count=14):
    """Histories of one to nine items, some of them unknown or empty."""
    made = [[f"i{(n * 7 + step) % 33}" for step in range(n % 10)] for n in range(count)]
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"history": made}), path)
    elif path.suffix == ".csv":
        path.write_text("user,items\n" + "".join(f"u{n},{' '.join(one)}\n" for n, one in enumerate(made)))
    else:
        path.write_text(
            "".join(json.dumps({"user": f"u{n}", "history": h}) + "\n" for n, h in enumerate(made))
        )
    return str(path)


def die_at(step):
    """SIGKILL this process before its ``step``-th change of a file's fate: written, renamed or removed."""
    calls = 0

    def counted(real):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in ("fsync", "replace"):
        setattr(os, name, counted(getattr(os, name)))
    partial.Path.unlink = counted(Path.unlink)
    partial.PartialOutput.add = counted(partial.PartialOutput.add)
    Lock.release = lambda self: None  # when everything is done


def killed_at(step, words):
    """Whether the command was killed at a step; False if it came to its end before."""
    child = os.fork()
    if not child:
        try:
            die_at(step)
            os._exit(main(words))
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@needs_fork
@pytest.mark.parametrize("kind", [".jsonl", ".parquet"])
def test_killed_before_every_step(workplace, model, small_windows, kind, caplog, capfd):
    """A real SIGKILL before each flush, rename and removal; the next run gives the same file and warning."""
    source = write_histories(workplace / f"in{kind}", 8)
    assert main(["recommend", model, source, "-o", f"whole{kind}", "-k", "3"]) == 0
    whole = (workplace / f"whole{kind}").read_bytes()
    (warning,) = [record.message for record in caplog.records if "were skipped" in record.message]
    target = workplace / f"out{kind}"
    words = ["recommend", model, source, "-o", str(target), "-k", "3"]
    step, resumed = 1, 0
    while killed_at(step, words):
        caplog.clear()
        capfd.readouterr()
        done = target.exists()
        assert main(words) == 0, f"killed before step {step}"
        resumed += "Resuming after" in capfd.readouterr().err
        assert target.read_bytes() == whole
        assert done or [one.message for one in caplog.records if "were skipped" in one.message] == [warning]
        left = {path.name for path in workplace.glob("out*")}
        assert left == {target.name}, f"killed before step {step}"
        target.unlink()
        step += 1
    assert step > 12 and resumed > 6, "there are two windows, and each is saved"


@needs_fork
def test_killed_again_and_again(workplace, model, small_windows):
    """Every attempt gets a little further."""
    source = write_histories(workplace / "in.jsonl", 24)
    assert main(["recommend", model, source, "-o", "whole.jsonl"]) == 0
    words = ["recommend", model, source, "-o", "out.jsonl"]
    attempts = 0
    while killed_at(9, words):
        attempts += 1
    assert 2 < attempts < 20
    assert (workplace / "out.jsonl").read_bytes() == (workplace / "whole.jsonl").read_bytes()


@pytest.fixture
def interrupted(workplace, model, small_windows, monkeypatch, capfd):
    """``out.jsonl`` after two windows of four, stopped by Ctrl-C, and the command."""
    source = write_histories(workplace / "in.jsonl")
    real = partial.PartialOutput.add
    words = ["recommend", model, source, "-o", "out.jsonl", "-k", "3"]
    with monkeypatch.context() as patch:

        def add(self, *args):
            if self.progress.windows == 2:
                raise KeyboardInterrupt
            real(self, *args)

        patch.setattr(partial.PartialOutput, "add", add)
        assert main(words) == 130
    said = capfd.readouterr().err
    assert "8 histories are done and kept in 'out.jsonl.partial'; the same command resumes." in said
    assert {path.name for path in workplace.glob("out*")} == {"out.jsonl.partial", "out.jsonl.partial.json"}
    return words


def test_another_question_does_not_continue(interrupted, workplace, capfd):
    """Half of a file with three items each and half with four would be nobody's wish."""
    before = (workplace / "out.jsonl.partial").read_bytes()
    other = [*interrupted[:-1], "4", "--exclude-history"]
    assert main(other) == 2
    error = capfd.readouterr().err
    assert "holds the results of 8 histories for another k and another --exclude-history" in error
    assert (workplace / "out.jsonl.partial").read_bytes() == before and not (workplace / "out.jsonl").exists()
    assert main([*other, "--overwrite"]) == 0
    lines = [json.loads(line) for line in (workplace / "out.jsonl").read_text().splitlines()]
    assert len(lines) == 14 and len(lines[13]["items"]) == 4


def test_histories_that_changed_do_not_continue(interrupted, workplace, capfd):
    """Among the finished ones; the rest may change, and a broken line there can be repaired."""
    source = workplace / "in.jsonl"
    text = source.read_text()
    source.write_text(text.replace('"i14"', '"i15"', 1))
    assert main(interrupted) == 2
    assert "have changed since 8 of them were answered in 'out.jsonl.partial'" in capfd.readouterr().err
    source.write_text("".join(text.splitlines(True)[:5]))
    assert main(interrupted) == 2
    assert main([*interrupted, "--overwrite"]) == 0
    assert len((workplace / "out.jsonl").read_text().splitlines()) == 5


def test_a_broken_line_can_be_repaired(workplace, model, small_windows, capfd):
    source = workplace / "in.jsonl"
    write_histories(source)
    good = source.read_text()
    lines = good.splitlines(True)
    source.write_text("".join([*lines[:9], "{\n", *lines[10:]]))
    words = ["recommend", model, str(source), "-o", "out.jsonl"]
    assert main(words) == 2
    error = capfd.readouterr().err
    assert "8 histories are done" in error and f"Error: Line 10 of '{source}' is not JSON" in error
    source.write_text(good)
    assert main(words) == 0
    assert "Resuming after 8 histories" in capfd.readouterr().err
    assert main(["recommend", model, str(source), "-o", "whole.jsonl"]) == 0
    assert (workplace / "out.jsonl").read_bytes() == (workplace / "whole.jsonl").read_bytes()


def test_a_full_disk_loses_nothing(interrupted, workplace, monkeypatch, capfd):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert main(interrupted) == 1
    assert "the disk is full; make room" in capfd.readouterr().err
    assert main(interrupted) == 0 and len((workplace / "out.jsonl").read_text().splitlines()) == 14


def test_two_processes_do_not_write_one_file(interrupted, workplace, capfd):
    with Lock(workplace / "out.jsonl.partial"):
        assert main(interrupted) == 2
    assert "Another process is writing 'out.jsonl'" in capfd.readouterr().err


def test_standard_input_cannot_be_read_again(workplace, model, small_windows, monkeypatch, capfd):
    """So nothing is kept of it; a good one is answered like a file."""
    import io

    for text, code in (('["i1"]\n' * 9 + "{", 2), ('["i1"]\n' * 9, 0)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert main(["recommend", model, "-", "-o", "out.jsonl"]) == code
        assert [path.name for path in workplace.glob("out*")] == ([] if code else ["out.jsonl"])
    assert len((workplace / "out.jsonl").read_text().splitlines()) == 9


def test_a_file_for_one_history(workplace, model):
    assert main(["recommend", model, "--history", "i3", "i4", "-o", "out.csv", "-k", "2"]) == 0
    assert (workplace / "out.csv").read_bytes().startswith(b"user,rank,item,score\r\n1,1,i")


def started(process, target):
    """Wait until a command has saved its first windows; its processes, itself first."""
    state = target.with_name(f"{target.name}.partial.json")
    for _ in range(1200):
        if state.exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    assert process.poll() is None and state.exists(), process.communicate()
    return [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]


@pytest.mark.skipif(os.name == "nt", reason="sends SIGKILL, which Windows has not")
def test_every_core_works_and_dies_with_the_first_process(workplace, model, monkeypatch):
    """Workers give what one process gives, byte for byte, and none of them outlives the command."""
    source = write_histories(workplace / "in.jsonl", 3_000)
    script = workplace / "run.py"
    script.write_text(
        textwrap.dedent("""
            import sys
            import time

            from recbole_asarrec.__main__ import main
            from recbole_asarrec.inference import answer, histories, partial

            add = partial.PartialOutput.add

            def slowly(*args):
                add(*args)
                time.sleep(0.2)

            if __name__ == "__main__":
                histories.WINDOW, answer._FEW, partial._SAVE_EVERY = 50, 1, 0
                partial.PartialOutput.add = slowly
                sys.exit(main(sys.argv[1:]))
        """)
    )
    words = ["recommend", model, source, "-o", "out.jsonl", "--jobs", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, str(script), *words], **pipes) as run:
        family = started(run, workplace / "out.jsonl")
        run.kill()
    assert len(family) >= 3, "the command and two workers"
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
    progress = json.loads((workplace / "out.jsonl.partial.json").read_text())
    assert 0 < progress["histories"] < 3_000
    monkeypatch.setattr(histories, "WINDOW", 50)
    assert main([*words[:-1], "1"]) == 0
    assert main(["recommend", model, source, "-o", "whole.jsonl", "--jobs", "1"]) == 0
    assert (workplace / "out.jsonl").read_bytes() == (workplace / "whole.jsonl").read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="sends SIGKILL, which Windows has not")
def test_a_lost_worker_is_said_and_nothing_is_lost(workplace, model, monkeypatch, capfd):
    """What the system does to a process that takes too much memory."""
    source = write_histories(workplace / "in.jsonl", 4_000)  # so many that some are left when it dies
    monkeypatch.setattr(histories, "WINDOW", 50)
    monkeypatch.setattr(answer, "_FEW", 1)
    real, seen = partial.PartialOutput.add, []

    def add(self, *args):
        real(self, *args)
        seen.append(1)
        if len(seen) == 3:
            grandchildren = set(psutil.Process().children(recursive=True)) - set(psutil.Process().children())
            assert len(grandchildren) == 2, "the server's workers"
            grandchildren.pop().kill()

    monkeypatch.setattr(partial.PartialOutput, "add", add)
    words = ["recommend", model, source, "-o", "out.jsonl", "--jobs", "2"]
    assert main(words) == 1
    error = capfd.readouterr().err
    assert (
        "A process was ended from outside" in error
        and "lower --jobs" in error
        and "are done and kept" in error
    )
    assert main([*words[:-1], "1"]) == 0
    assert len((workplace / "out.jsonl").read_text().splitlines()) == 4_000
