"""A newcomer's first import and first command, in environments that lack something.

Packages are taken away inside a process of its own: no finder finds them and their metadata is gone.
"""

import configparser
import subprocess
import sys

import pytest
from helpers import ROOT

from recbole_asarrec import environment

WITHOUT = """
import importlib.metadata, sys
missing = {missing!r}

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in missing else self.finder.find_spec(name, path, target)

def version(package, found=importlib.metadata.version):
    if package in missing:
        raise importlib.metadata.PackageNotFoundError(package)
    return found(package)

sys.meta_path[:] = map(Without, sys.meta_path)
importlib.metadata.version = version
{code}
"""


def python_without(missing, code):
    program = WITHOUT.format(missing=set(missing), code=code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


NO_RECBOLE = f"RecBole is not installed. Run: {environment.INSTALL_RECBOLE}"


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (["colorlog"], 'colorlog is not installed. Run: pip install --upgrade "colorlog>=4.7"'),
        (["torch"], "torch is not installed."),
    ],
)
def test_an_import_that_cannot_succeed_says_what_to_type(missing, says):
    done = python_without(missing, "import recbole_asarrec")
    assert done.returncode == 1 and says in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import recbole_asarrec\nfrom recbole.quick_start import run_recbole", NO_RECBOLE),
        ("from recbole_asarrec import Recommender", "recbole_asarrec.Recommender needs RecBole"),
        ("from recbole_asarrec import nonsense", "cannot import name 'nonsense'"),
        ("from recbole_asarrec.__main__ import main; main(['train'])", NO_RECBOLE),
    ],
)
def test_without_recbole_what_needs_it_says_what_to_type(code, says):
    """Importing the package alone is fine: its serving part needs no RecBole."""
    done = python_without(["recbole"], code)
    assert done.returncode == 1 and says in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("missing", [["recbole"], ["torch"], ["numpy", "pandas"]], ids="+".join)
def test_the_doctor_starts_whatever_is_missing(missing):
    code = (
        "sys.orig_argv = ['python', '-m', 'recbole_asarrec', 'doctor']\n"
        "from recbole_asarrec.__main__ import main\n"
        "main(['doctor'])"
    )
    done = python_without(missing, code)
    assert done.returncode == 1, done.stderr
    problems = done.stdout.partition("Problems\n")[2]
    for package in missing:
        name = "RecBole" if package == "recbole" else package
        assert f"{name} is not installed." in problems and "pip install" in problems


def test_the_doctor_finds_nothing_wrong_here():
    done = subprocess.run(
        [sys.executable, "-m", "recbole_asarrec", "doctor"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stdout.endswith("Problems\n  none\n"), done.stdout + done.stderr


def test_old_and_broken_packages_are_told_apart(monkeypatch):
    monkeypatch.setattr(environment, "installed", lambda package: "1.5" if package == "torch" else "99")
    (old,) = environment.package_problems()
    assert old.what == "torch 1.5 is too old; 2.6 is needed."
    monkeypatch.setattr(environment, "REQUIRED", {"antigravity_broken": ("broken", "1")})
    monkeypatch.setattr(environment.importlib, "import_module", lambda name: 1 / 0)
    (broken,) = environment.package_problems()
    assert "does not import (ZeroDivisionError" in broken.what and "--force-reinstall" in broken.command


def test_the_check_and_the_package_metadata_name_the_same_requirements():
    """They are written twice, because a check must not need the metadata that may be missing."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    written = setup["options"]["install_requires"].split("\n")
    assert [line for line in written if line] == [
        f"{package} >={oldest}" for package, oldest in environment.REQUIRED.values()
    ]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python", "-m", "recbole_asarrec", "doctor"], True),
        (["python3.13", "/usr/bin/recbole-asarrec", "doctor"], True),
        (["python.exe", r"C:\venv\Scripts\recbole-asarrec.exe", "doctor"], True),
        (["python", "-m", "recbole_asarrec", "train"], False),
        (["python", "doctor"], False),
        (["python"], False),
    ],
)
def test_the_doctor_is_known_by_its_command(monkeypatch, argv, expected):
    monkeypatch.setattr(sys, "orig_argv", argv)
    assert environment.doctor_is_running() is expected
