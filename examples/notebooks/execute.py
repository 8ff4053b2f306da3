"""Run the notebooks from top to bottom and keep their outputs: ``python examples/notebooks/execute.py``.

Names of notebooks run those alone. Each runs in a copy of ``examples/`` in a folder of its own, so that
nothing it writes stays here. Progress bars and times are not kept: they are of one run, not of the tutorial.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
_TIMEOUT = 1200  # seconds of a cell, on a machine that is busy
_WRITTEN = ("saved", "log", "log_tensorboard", "results", "exported", "__pycache__", ".ipynb_checkpoints")


def execute(notebook: Path, folder: Path) -> Any:
    """Run a notebook in a new copy of ``examples/`` inside ``folder``.

    Returns:
        The notebook with its outputs.

    Raises:
        CellExecutionError: a cell failed; the message has the cell and the traceback.
    """
    copy = shutil.copytree(HERE.parent, folder / "examples", ignore=shutil.ignore_patterns(*_WRITTEN))
    content = nbformat.read(notebook, as_version=4)
    where = {"metadata": {"path": str(copy / HERE.name)}}
    client = NotebookClient(
        content, timeout=_TIMEOUT, resources=where, record_timing=False, coalesce_streams=True
    )
    return client.execute()


def tidy(content: Any) -> Any:
    """Drop progress bars, and what Jupyter says of the Python that ran."""
    content.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in content.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    return content


def main(argv: Sequence[str] | None = None) -> int:
    """Run each notebook and write it back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every notebook of this folder")
    chosen = parser.parse_args(argv).notebooks or sorted(HERE.glob("*.ipynb"))
    for notebook in chosen:
        began = perf_counter()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            content = execute(notebook, Path(folder))
        nbformat.write(tidy(content), notebook)
        print(f"{notebook.name}: {perf_counter() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
