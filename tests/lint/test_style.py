"""The house rules that a machine can check."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import recbole
from helpers import ROOT

MODULES = sorted((ROOT / "recbole_asarrec").rglob("*.py"))
pytestmark = pytest.mark.lint


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        pytest.param(["mypy"], marks=pytest.mark.campaign),
    ],
    ids=" ".join,
)
def test_linters_are_content(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


@pytest.fixture(scope="module")
def recboles_private_names():
    """What RecBole's classes and modules call by a name with an underscore."""
    found = set()
    for file in Path(recbole.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    found = {name for name in found if is_private(name)}
    assert {"_train_epoch", "_dataset"} <= found
    return found - {"_dataset"}  # of a loader: RecBole's quick start reads it too


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_hooks_know_recboles_internals(module, recboles_private_names):
    """Elsewhere nobody assigns into RecBole's modules, imports its private names or reaches for those of an
    object that is not his own; a subclass may use what it inherits."""
    if module.parent.name == "compat":
        return
    text = module.read_text(encoding="utf-8")
    assert "setattr(recbole" not in text and "sys.modules[" not in text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recbole."):
            assert not any(is_private(one.name) for one in node.names), ast.unparse(node)
        if isinstance(node, ast.Attribute) and node.attr in recboles_private_names:
            own = ast.unparse(node.value) in ("self", "cls", "super()")
            assert own, f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_one_idea_a_file(module):
    assert len(module.read_text().splitlines()) <= 350


def test_readme_has_the_command_that_ci_runs():
    """`.ci/run` calls exactly the README's second command, so neither can rot alone."""
    script, readme = ((ROOT / name).read_text().splitlines() for name in (".ci/run", "README.md"))
    assert len([line for line in script if line.endswith("-m pytest") and line in readme]) == 1


def test_property_files_and_docs_are_what_the_settings_say():
    """Each key is written once; `python docs/keys.py` writes the files again."""
    spec = importlib.util.spec_from_file_location("keys", ROOT / "docs" / "keys.py")
    keys = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(keys)
    for name, make in keys.FILES.items():
        assert (ROOT / name).read_text(encoding="utf-8") == make(), f"run python docs/keys.py: {name} is old"
