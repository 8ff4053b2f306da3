"""The house rules that a machine can check."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "recbole_asarrec").rglob("*.py"))
pytestmark = pytest.mark.house


@pytest.mark.parametrize(
    "command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=" ".join
)
def test_linters_are_content(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_hooks_replace_parts_of_recbole(module):
    """One room knows RecBole's internals: nobody else assigns into its modules or reads its private names."""
    if module.parent.name == "hooks":
        return
    text = module.read_text()
    assert "setattr(recbole" not in text and ("sys.modules[" not in text or module.name == "stack.py")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recbole."):
            assert not any(name.name.startswith("_") for name in node.names), ast.dump(node)


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_one_idea_a_file(module):
    assert len(module.read_text().splitlines()) <= 350


def test_readme_has_the_command_that_ci_runs():
    """`.ci/run` calls exactly the README's second command, so neither can rot alone."""
    script = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "pytest" in line]
    assert len(script) == 1 and script[0] in (ROOT / "README.md").read_text()


def test_the_docs_say_of_every_key_what_its_property_file_says():
    listed = (ROOT / "docs" / "keys.md").read_text()
    for file in ("model/Asar.yaml", "overall.yaml"):
        written = (ROOT / "properties" / file).read_text()
        found = re.findall(r"^(\w+): (.*?)\s+# \([^)]*\) (.*)$", written, re.M)
        assert found
        for key, default, meaning in found:
            assert f"| `{key}` | `{default}` | {meaning} |" in listed, f"docs/keys.md says otherwise of {key}"
