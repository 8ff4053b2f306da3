"""The tutorials are kept as they ran: with outputs, in order, without errors and without a machine's paths.

Whether they still run is for ``tests/integration/test_tutorials.py``.
"""

import copy
import json
import re

import pytest
from helpers import ROOT

pytestmark = pytest.mark.lint
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
LARGEST = 300_000  # bytes: what a browser opens at once and a repository can carry
_PATH = re.compile(r"(?<![\w.:/~<-])/[\w.-]+/[\w.-]+|\b[A-Z]:\\|file://")  # absolute, of two names or more
_LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
_DATA = ("image/png", "image/jpeg")  # base 64, not text


def texts(cell):
    """All text of a cell: its source and what it put out."""
    yield "".join(cell["source"])
    for output in cell.get("outputs", ()):
        yield "".join(output.get("text", ""))
        for kind, content in output.get("data", {}).items():
            if kind not in _DATA:
                yield content if isinstance(content, str) else "".join(map(str, content))


def problems(notebook):
    """What is wrong with the outputs of a notebook, a sentence each."""
    found = []
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    if [cell["execution_count"] for cell in code] != list(range(1, len(code) + 1)):
        found.append("the cells were not run once each, from top to bottom")
    outputs = [output for cell in code for output in cell["outputs"]]
    if not outputs:
        found.append("there is no output")
    for output in outputs:
        if output["output_type"] == "error":
            found.append(f"an error is kept: {output['ename']}")
        if output.get("name") == "stderr":
            found.append("warnings or progress bars are kept")
    for cell in notebook["cells"]:
        found += [f"a path of a machine: {path[0]}" for text in texts(cell) for path in _PATH.finditer(text)]
    return found


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept(notebook):
    """Else: python examples/notebooks/execute.py"""
    assert problems(json.loads(notebook.read_text(encoding="utf-8"))) == []
    assert notebook.stat().st_size < LARGEST


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_to_files(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    targets = [target.partition("#")[0] for target in _LINK.findall(text)]
    assert targets and [target for target in targets if not (notebook.parent / target).is_file()] == []


def test_the_documentation_names_every_tutorial():
    page = (ROOT / "docs" / "tutorials.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 3 and all(notebook.name in page for notebook in NOTEBOOKS)


def _said(text, **more):
    return {"output_type": "stream", "name": "stdout", "text": [text], **more}


GOOD = {
    "cells": [
        {"cell_type": "markdown", "source": ["run it in `examples/notebooks`, see https://recbole.io/data/"]},
        {"cell_type": "code", "execution_count": 1, "source": ["print(1)"], "outputs": [_said("1")]},
        {"cell_type": "code", "execution_count": 2, "source": ["x = 'saved/a.pth'"], "outputs": []},
    ]
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda cells: None, None),
        (lambda cells: cells[1].update(execution_count=None), "the cells were not run once each"),
        (lambda cells: cells[2].update(execution_count=1), "the cells were not run once each"),
        (lambda cells: cells[1].update(outputs=[]), "there is no output"),
        (lambda cells: cells[1].update(outputs=[_said("!", name="stderr")]), "warnings or progress bars"),
        (
            lambda cells: cells[2].update(outputs=[{"output_type": "error", "ename": "KeyError"}]),
            "an error is kept: KeyError",
        ),
        (lambda cells: cells[1].update(outputs=[_said("in /home/a/b")]), "a path of a machine"),
        (lambda cells: cells[2].update(source=["x = 'C:\\\\a'"]), "a path of a machine"),
        (
            lambda cells: cells[1].update(
                outputs=[{"output_type": "display_data", "data": {"text/html": "<a href='/tmp/a'>"}}]
            ),
            "a path of a machine",
        ),
    ],
)
def test_it_finds_what_is_wrong(change, says):
    """A checker that finds nothing must be shown to find something."""
    notebook = copy.deepcopy(GOOD)
    change(notebook["cells"])
    found = problems(notebook)
    assert found == [] if says is None else found and found[0].startswith(says)
