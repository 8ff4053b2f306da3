"""The built wheel away from the source folder, and the suite beside the packages of RecBole's time.

The suite itself runs on today's packages, as the README installs them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from helpers import ROOT, write_atomic

pytestmark = [pytest.mark.environment, pytest.mark.timeout(3600)]
# what differs between the two environments is what RecBole's own code does: data, configuration, training
TOUCHES_RECBOLE = [f"tests/{folder}" for folder in ("compat", "config", "data", "experiments", "training")]
TOUCHES_RECBOLE += ["tests/cli/test_train.py", "tests/cli/test_recommend.py", "tests/export"]


def run(*command, cwd, code=0, **variables):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=3000,
        env={**os.environ, **variables},
    )
    assert done.returncode == code, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
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
        assert file.relative_to(ROOT).as_posix() in inside
    for file in (ROOT / "properties").rglob("*.yaml"):
        assert f"recbole_asarrec/properties/{file.relative_to(ROOT / 'properties').as_posix()}" in inside


def test_the_wheel_trains_in_an_empty_folder(wheel, tmp_path):
    """Beside the packages of this suite, and found before the source folder that they may point to."""
    installed, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", installed, wheel, cwd=empty)
    script = """
import recbole_asarrec
from recbole.quick_start import run_recbole
print("FROM", recbole_asarrec.__file__)
keys = {"epochs": 1, "hidden_size": 16, "inner_size": 16, "n_layers": 1, "user_inter_num_interval": "[5,30]"}
print("NDCG", run_recbole("AsarSASRec", "ml-100k", config_dict=keys)["test_result"]["ndcg@10"])
"""
    shown = run(sys.executable, "-c", script, cwd=empty, PYTHONPATH=str(installed))
    assert f"FROM {installed}" in shown and "NDCG" in shown
    run(sys.executable, "-m", "recbole_asarrec", "doctor", cwd=empty, PYTHONPATH=str(installed))


def test_the_wheel_serves_with_numpy_and_onnx_runtime_alone(wheel, tmp_path):
    """An AsarSASRec, trained and exported here, recommends the same where nothing else is installed."""
    write_atomic(tmp_path / "dataset", "toy")
    keys = ["--dataset=toy", "--epochs=1", "--hidden_size=16", "--inner_size=16", "--checkpoint_dir=saved"]
    command = (sys.executable, "-m", "recbole_asarrec")
    run(*command, "train", "--model=AsarSASRec", *keys, cwd=tmp_path)
    (weights,) = (tmp_path / "saved").glob("*.pth")
    run(*command, "export", weights, "-o", "exported", cwd=tmp_path)
    history = ["i3", "i4", "i5"]
    shown = run(*command, "recommend", weights, "--history", *history, "-k", "30", cwd=tmp_path)
    expected = json.loads(shown)

    run(sys.executable, "-m", "venv", tmp_path / "bare", cwd=tmp_path)
    python = tmp_path / "bare" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "numpy", "onnxruntime", cwd=tmp_path)
    run(python, "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=tmp_path)
    script = f"""
import importlib.util, json
assert not any(map(importlib.util.find_spec, ("torch", "recbole", "pandas", "scipy", "tqdm", "onnx")))
from recbole_asarrec.serving import Recommender
print(json.dumps(Recommender("exported").recommend([{history!r}], k=30)[0]._asdict()))
"""
    found = json.loads(run(python, "-c", script, cwd=tmp_path))
    scores = dict(zip(expected["items"], expected["scores"], strict=True))
    assert dict(zip(found["items"], found["scores"], strict=True)) == pytest.approx(scores, abs=1e-4)
    assert "RecBole is not installed" in run(python, "-m", "recbole_asarrec", "doctor", cwd=tmp_path, code=1)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="needs Python < 3.12, as ray 2.6.3 does")
def test_the_packages_of_recboles_time(tmp_path):
    """RecBole with its own requirement list, as docs/guide.md installs it: ray 2.6.3, numpy 1, pandas 2."""
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    old = tmp_path / "venv" / "bin" / "python"
    install = (old, "-m", "pip", "install", "-q", "-c", "constraints-old.txt", "recbole==1.2.1")
    run(*install, "-e", ".[test]", cwd=ROOT)
    found = run(
        old, "-c", "import numpy, pandas, ray; print(numpy.__version__, pandas.__version__)", cwd=ROOT
    )
    assert re.match(r"1\..* 2\.", found)
    run(old, "-m", "recbole_asarrec", "doctor", cwd=ROOT)
    select = ("-m", "not (environment or campaign or browser or learning or arithmetic)")
    run(old, "-m", "pytest", "-q", "-p", "no:cacheprovider", *select, *TOUCHES_RECBOLE, cwd=ROOT)
