"""Windows and macOS: what only POSIX has is not touched, and paths are theirs where they are only strings."""

import ast
import importlib.util
import json
import os
import shlex
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import SMALL
from recbole.config import Config

from recbole_asarrec import DataError, files
from recbole_asarrec.data.checks import check_name, how_to_prepare
from recbole_asarrec.data.download import check_archive
from recbole_asarrec.experiments import machine
from recbole_asarrec.experiments.records import Record, Spec, append, read
from recbole_asarrec.shell import typed

PACKAGE = Path(importlib.util.find_spec("recbole_asarrec").origin).parent
POSIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}

# Python as Windows has it, as far as Linux can show it: every new process runs this first
WITHOUT_POSIX = f"""
import multiprocessing.context, multiprocessing.popen_spawn_posix, os, signal, sys
import psutil  # has its own way on each system

for name in {sorted(POSIX_ONLY - {"posix"})!r}:
    sys.modules[name] = None  # cannot be imported
for name in ("fork", "forkpty", "getuid", "geteuid", "killpg", "sched_getaffinity", "sysconf", "wait4"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGALRM", "SIGCHLD", "alarm", "pthread_kill"):
    delattr(signal, name)
contexts = multiprocessing.context._concrete_contexts
multiprocessing.context._concrete_contexts = {{"spawn": contexts["spawn"]}}
multiprocessing.context._default_context._default_context = contexts["spawn"]
multiprocessing.get_all_start_methods = lambda: ["spawn"]
"""

TRAIN = f"""
import recbole_asarrec, recbole_asarrec.__main__
from recbole.quick_start import run_recbole
from recbole.trainer import Trainer

def train(folder):
    keys = {{**{SMALL!r}, "checkpoint_dir": folder, "resume": True}}
    return run_recbole(model="AsarSASRec", dataset="toy", config_dict=keys)

train_epoch = Trainer._train_epoch

def stop(self, data, epoch, *args, **keys):
    if epoch == 1:
        raise KeyboardInterrupt
    return train_epoch(self, data, epoch, *args, **keys)

Trainer._train_epoch = stop
try:
    train("broken")
except KeyboardInterrupt:
    pass
Trainer._train_epoch = train_epoch
assert train("broken") == train("whole")
"""

GRID = """\
models: [AsarSASRec]
augmentations: [asar]
datasets: [toy]
seeds: [1, 2]
common: {training: prefix, epochs: 1, hidden_size: 16, inner_size: 32, n_layers: 1, n_heads: 1}
"""


def run(*command, **options):
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", **options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.campaign
def test_everything_works_without_what_windows_lacks(toy, monkeypatch):
    """Import, train, resume, recommend, and a grid of two runs at once whose records are read again."""
    (toy / "site").mkdir()
    (toy / "site" / "sitecustomize.py").write_text(WITHOUT_POSIX)
    monkeypatch.setenv("PYTHONPATH", str(toy / "site"))
    run("-c", TRAIN)
    (weights,) = Path("broken").glob("*.pth")
    assert {path.suffix for path in Path("broken").iterdir()} == {".pth", ".run"}
    Path("histories.jsonl").write_text('["i1", "i2"]\n')
    command = ("-m", "recbole_asarrec")
    run(*command, "recommend", weights, "histories.jsonl", "-k", "3", "-o", "best.jsonl")
    assert len(json.loads(Path("best.jsonl").read_text())["items"]) == 3
    Path("grid.yaml").write_text(GRID)
    run(*command, "grid", "--grid", "grid.yaml", "-o", "results", "--jobs", "2")
    records = read("results")
    assert sorted(record.spec.seed for record in records) == [1, 2]
    assert all(record.peak_gib > 0 and record.machine["cores"] >= 1 for record in records)


def imports(tree):
    """Modules that a module imports when it is imported, not those its functions do."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from imports(node)


@pytest.mark.parametrize("module", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_imports_what_only_posix_has(module):
    """`import recbole_asarrec` failed on Windows because of one such line."""
    found = {name.partition(".")[0] for name in imports(ast.parse(module.read_text(encoding="utf-8")))}
    assert not found & POSIX_ONLY


@pytest.mark.lint
def test_every_text_file_has_its_encoding():
    """Windows' default is not UTF-8, so a title in Cyrillic would break a file that is fine on Linux."""
    run("-m", "ruff", "check", "--isolated", "--preview", "--select=PLW1514", PACKAGE)


def test_piped_text_is_utf8_whatever_the_locale(workplace):
    """Windows pipes have the locale's encoding: a recommended item with another letter was a traceback."""
    script = (
        "import sys; from recbole_asarrec.exit_codes import run_command\n"
        "run_command(lambda: print(sys.stdin.read(), '≤ Война'))"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    assert run("-c", script, input="日本", env=environment).rstrip() == "日本 ≤ Война"


@pytest.mark.parametrize("name", ["C:\\x", "C:/x", "C:x", "..\\x", "\\\\server\\share"])
def test_a_data_set_is_not_a_path_of_windows_either(name):
    """Joined to data_path, a drive would lead anywhere."""
    with pytest.raises(DataError, match="its name is that of a folder"):
        check_name(name)


@pytest.mark.parametrize("name", ["C:\\evil.inter", "C:evil.inter", "\\evil.inter", "a\\..\\..\\evil"])
def test_an_archive_is_not_unpacked_by_a_path_of_windows(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(RuntimeError, match="outside its folder"):
        check_archive(tmp_path / "x.zip")


WINDOWS_PATH = "C:\\Users\\Jo Do\\data"


def test_commands_are_quoted_for_the_shell_at_hand(monkeypatch):
    """Single quotes mean nothing to Windows' shells, and a bare backslash is lost in POSIX'."""
    words = ["prepare", WINDOWS_PATH, "a'b"]
    assert shlex.split(typed(words)) == words
    monkeypatch.setattr(os, "name", "nt")
    assert typed(words) == f'prepare "{WINDOWS_PATH}" a\'b'


def test_paths_of_windows_pass_through_as_they_are(toy):
    """Configuration, its fingerprint, commands and records hold them as plain strings."""
    where = {"checkpoint_dir": WINDOWS_PATH, "data_path": "C:\\Users\\Jo Do"}
    config = Config("AsarSASRec", "toy", config_dict={**SMALL, **where})
    assert config["checkpoint_dir"] == WINDOWS_PATH and config["data_path"].startswith(where["data_path"])
    spec = Spec("AsarSASRec", "toy", 1, where)
    ranks = {"all_items": np.ones(3, dtype=int)}
    append(Record(spec, dict(where), {}, None, [], 0, {}, {}, ranks, "u", 1.0, 0.1), "with space")
    (back,) = read("with space")
    assert back.spec == spec and back.spec.run == spec.run and back.config == where


class TestFiles:
    """What is written is whole or not there, and nothing is left behind."""

    def test_text_is_the_same_on_every_system(self, tmp_path):
        with files.atomic_write(tmp_path / "a") as file:
            file.write("é\n")
        assert (tmp_path / "a").read_bytes() == "é\n".encode()

    @pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
    def test_an_error_leaves_what_was_there(self, tmp_path, error):
        (tmp_path / "a").write_text("old")
        with pytest.raises(error), files.atomic_write(tmp_path / "a", "wb") as file:
            file.write(b"new")
            raise error
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
        assert (tmp_path / "a").read_text() == "old"

    def test_two_writers_do_not_mix(self, tmp_path):
        """Two runs of a grid may write the same cache at once; the later one wins whole."""
        with files.atomic_write(tmp_path / "a") as one:
            one.write("o")
            with files.atomic_write(tmp_path / "a") as two:
                two.write("two")
            one.write("ne")
        assert (tmp_path / "a").read_text() == "one" and len(list(tmp_path.iterdir())) == 1

    def test_only_the_parts_of_one_file_are_removed(self, tmp_path):
        for name in ("a[1].pth", "a[1].pth.12ab.part", "a[1].pth-2.12ab.part", "a1.pth.12ab.part"):
            (tmp_path / name).touch()
        files.remove_parts(tmp_path / "a[1].pth")
        kept = {path.name for path in tmp_path.iterdir()}
        assert kept == {"a[1].pth", "a[1].pth-2.12ab.part", "a1.pth.12ab.part"}

    def test_a_folder_that_cannot_be_synced_is_whole_all_the_same(self, tmp_path, monkeypatch):
        """Windows syncs no folders."""
        sync = os.fsync

        def refuse(handle):
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                raise PermissionError(13, "Permission denied")
            sync(handle)

        monkeypatch.setattr(os, "fsync", refuse)
        with files.atomic_folder(tmp_path / "made") as part:
            (part / "below").mkdir()
            (part / "below" / "a").write_text("a")
        assert (tmp_path / "made" / "below" / "a").read_text() == "a"
        assert [path.name for path in tmp_path.iterdir()] == ["made"]

    def test_a_lock_ends_with_the_process_that_held_it(self, tmp_path):
        """Or a killed run could never be resumed."""
        script = (
            "import sys; from recbole_asarrec.files import Lock\n"
            f"lock = Lock({str(tmp_path / 'a')!r}); lock.acquire(); print('held', flush=True); input()"
        )
        holder = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout.readline() == "held\n"
        lock = files.Lock(tmp_path / "a")
        assert not lock.acquire(wait=False)
        holder.kill()
        holder.communicate()
        assert lock.acquire(wait=False)
        lock.release()
        assert not list(tmp_path.iterdir())


def test_cores_are_those_that_may_be_used(monkeypatch):
    """In a container `os.cpu_count` is the whole machine's; Windows and macOS have nothing better."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3}, raising=False)
    assert machine.cores() == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert machine.cores() == 7


def test_a_command_for_the_user_holds_the_folder_as_one_word():
    command = how_to_prepare("toy", str(Path("my data") / "toy")).partition("with: ")[2]
    assert shlex.split(command)[-2:] == ["--data_path", "my data"]
