"""A folder of its own for every test, and one trained model for all that only read it.

What a model learns depends on the CPU's rounding. Tests whose verdict does are marked ``learning`` and say
what they came to in the worst of 18 runs: three seeds, plain code, AVX2 and AVX-512, one thread or two.
"""

from __future__ import annotations

import logging
import os
import sys

if "PYTEST_XDIST_WORKER" in os.environ:
    # a core for each worker and what it starts: threads of several that share cores wait for each other
    os.environ["OMP_NUM_THREADS"] = "1"

import pytest
from helpers import LEARNS, write_atomic

import recbole_asarrec  # noqa: F401  (registers the plugin)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder as the current one, a bare command line, and RecBole's log handlers gone afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield tmp_path
    for handler in [h for h in root.handlers if h not in before]:
        handler.close()
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def toy(workplace):
    """The workplace with the dataset ``toy`` in it."""
    write_atomic(workplace / "dataset", "toy")
    return workplace


@pytest.fixture
def steady(workplace):
    """The workplace with a dataset ``toy`` whose every next item is certain."""
    write_atomic(workplace / "dataset", "toy", users=120, skips=0)
    return workplace


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with a dataset ``toy`` of steady walks and one model that has learned it, made once."""
    from recbole.quick_start import run_recbole

    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["pytest"])
        write_atomic(folder / "dataset", "toy", users=120, skips=0)
        run_recbole(model="AsarSASRec", dataset="toy", config_dict=dict(LEARNS))
    return folder
