"""The built wheel, in an empty environment with today's packages, away from the source folder.

The environment the suite itself runs in is the other lane: what RecBole was made for (constraints.txt).
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.environment


def run(*command, cwd):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    for part in ("recbole_asarrec", "properties"):
        shutil.copytree(ROOT / part, folder / "source" / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, folder / "source")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, folder / "source", cwd=folder)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_carries_every_file_that_is_not_code(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    for file in (ROOT / "recbole_asarrec" / "report" / "assets").iterdir():
        assert str(file.relative_to(ROOT)) in inside
    for file in (ROOT / "properties").rglob("*.yaml"):
        assert f"recbole_asarrec/properties/{file.relative_to(ROOT / 'properties')}" in inside


def make_today(wheel, folder):
    """Python of an environment with numpy 2, pandas 3 and no ray, and the wheel."""
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    version = torch.__version__.partition("+")[0]
    install = (python, "-m", "pip", "install", "-q")
    run(*install, f"torch=={version}", "-r", ROOT / "tests" / "today.txt", cwd=folder)
    run(*install, "--no-deps", "recbole==1.2.1", wheel, cwd=folder)
    return python


def test_todays_packages(wheel, tmp_path):
    """Doctor sees them, and the suite passes on them, with the wheel and from an empty folder.

    One test, because workers share no fixtures and the environment takes a minute to make.
    """
    today = make_today(wheel, tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    report = run(today, "-m", "recbole_asarrec", "doctor", cwd=empty)
    assert "a stand-in serves RecBole" in report and "Dataset._fill_nan for pandas 3" in report
    assert "ray is not installed" in report
    where = run(today, "-c", "import recbole_asarrec; print(recbole_asarrec.__file__)", cwd=empty)
    assert "site-packages" in where
    run(
        today, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "-m",
        "not lane and not house and not slow and not arithmetic", ROOT / "tests", cwd=empty,
    )  # fmt: skip
