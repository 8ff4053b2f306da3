"""The tutorials run from top to bottom, each in a folder that has nothing but ``examples/``."""

import importlib.util

import pytest
from helpers import ROOT

pytestmark = pytest.mark.campaign
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def execute():
    """The script that makes the outputs that are kept."""
    spec = importlib.util.spec_from_file_location("execute", ROOT / "examples" / "notebooks" / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_runs(notebook, execute, tmp_path):
    """Every cell runs without an error, and gives something wherever the kept notebook shows something."""
    kept = execute.nbformat.read(notebook, as_version=4)
    made = execute.tidy(execute.execute(notebook, tmp_path))
    assert [bool(cell.get("outputs")) for cell in made.cells] == [
        bool(cell.get("outputs")) for cell in kept.cells
    ]


def test_a_cell_that_fails_is_noticed(execute, tmp_path):
    """Otherwise the test above would pass whatever the notebooks do."""
    cells = [execute.nbformat.v4.new_code_cell("print(1)"), execute.nbformat.v4.new_code_cell("1 / 0")]
    broken = tmp_path / "broken.ipynb"
    execute.nbformat.write(execute.nbformat.v4.new_notebook(cells=cells), broken)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        execute.execute(broken, tmp_path / "run")
