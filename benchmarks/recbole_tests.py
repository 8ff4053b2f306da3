"""RecBole's own tests, without this package and with it imported, on the packages installed here.

``python benchmarks/recbole_tests.py CHECKOUT`` runs the tests of a checkout of RecBole's repository in a copy
of it and adds the outcomes of this environment to ``benchmarks/recbole-tests.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
PACKAGES = ("recbole", "torch", "numpy", "pandas", "scipy", "scikit-learn", "setuptools", "ray", "hyperopt")
FOLDERS = ("metrics", "data", "config", "evaluation_setting", "model", "hyper_tuning")
SCRIPT = "tests/config/test_command_line.py"  # no pytest file: RecBole runs it with these keys
KEYS = [
    "--use_gpu=False",
    "--valid_metric=Recall@10",
    "--metrics=['Recall']",
    "--epochs=200",
    "--learning_rate=0.3",
]
MODES = ("stock RecBole", "with the plugin")
NOTES = """S3Rec pretrains one epoch instead of 500. `test_overall.py` reports every error as
"False is not true": with stock RecBole it is torch, which since 2.6 does not open the checkpoints that
RecBole writes."""


def installed(package: str) -> str:
    """A package's version."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def last_line(text: str) -> str:
    """The last line that names an error, or the last there is."""
    lines = [line.removeprefix("E ").strip() for line in text.splitlines() if line.strip()] or ["no reason"]
    return next(
        (line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[-1]
    )[:120]


def run_pytest(name: str, plugin: bool, folder: Path) -> dict[str, str]:
    """Outcomes of a file by test, empty where it passed; of the file itself where it does not import."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    # RecBole reads --key=value of any command line as its own keys, so there is none of that form
    options = ["-q", "-n", "0", "--color", "no", "-p", "no:cacheprovider", "--junitxml", str(report)]
    options += ["-p", "recbole_asarrec"] if plugin else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if not report.exists():
        return {name: f"failed: {last_line(done.stderr)}"}
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        said = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        collected = said is None or said.get("message") != "collection failure"
        test = "::".join([name, case.get("classname", "").split(".")[-1], case.get("name", "")])
        word = "skipped" if said is not None and said.tag == "skipped" else "failed"
        outcomes[test if collected else name] = (
            "" if said is None else f"{word}: {last_line(said.text or '')}"
        )
    return outcomes


def run_script(plugin: bool, folder: Path) -> dict[str, str]:
    """The outcome of RecBole's test of the command line, as that of one test."""
    before = "import recbole_asarrec; " if plugin else ""
    code = f"{before}import runpy; runpy.run_path({SCRIPT!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, *KEYS], cwd=folder, capture_output=True, text=True, check=False
    )
    return {f"{SCRIPT}::main": f"failed: {last_line(done.stderr)}" if done.returncode else ""}


def run_all(plugin: bool, checkout: Path) -> dict[str, str]:
    """Outcomes of all tests, from a copy of the checkout's tests and sample data."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as copy:
        folder = Path(copy)
        for part in ("tests", "dataset"):
            shutil.copytree(checkout / part, folder / part)
        with open(folder / "tests" / "model" / "test_model.yaml", "a", encoding="utf-8") as keys:
            keys.write("\npretrain_epochs: 1\n")  # S3Rec's 500 would take ten hours
        for file in sorted(file for name in FOLDERS for file in (folder / "tests" / name).glob("test_*.py")):
            name = file.relative_to(folder).as_posix()
            outcomes = run_script(plugin, folder) if name == SCRIPT else run_pytest(name, plugin, folder)
            print(
                name, Counter(outcome or "passed" for outcome in outcomes.values()).most_common(), flush=True
            )
            found |= outcomes
    return found


def by_reason(outcomes: dict[str, str]) -> dict[str, list[str]]:
    """The tests, or whole files, that did not pass, by what was said."""
    reasons: dict[str, list[str]] = {}
    for test, reason in outcomes.items():
        if reason:
            reasons.setdefault(reason, []).append(test)
    return reasons


def table(kept: dict[str, Any]) -> str:
    """What is kept as a page for people."""
    lines = ["# RecBole's own tests", "", "`python benchmarks/recbole_tests.py CHECKOUT`, with a checkout of"]
    lines += [f"RecBole's repository at `{kept['recbole']}`.", NOTES, ""]
    lines += ["| packages | | passed | failed | skipped |", "|---|---|---|---|---|"]
    details: list[str] = []
    for environment, found in sorted(kept["environments"].items()):
        versions = ", ".join(f"{package} {number}" for package, number in found["versions"].items())
        details += ["", f"## {environment.capitalize()} packages", "", f"{versions}."]
        for mode in MODES:
            counts = Counter(passed=len(kept["tests"]))
            details += ["", f"{mode[0].upper()}{mode[1:]}:"]
            for reason, tests in sorted(found[mode].items(), key=lambda pair: -len(pair[1])):
                # of a file that does not import, every test
                number = sum(
                    known.startswith(f"{test}::") or known == test
                    for test in tests
                    for known in kept["tests"]
                )
                counts[reason.partition(":")[0]] += number
                counts["passed"] -= number
                names = ", ".join(f"`{test.split('::')[-1]}`" for test in tests)
                details.append(f"- {names if number < 9 else f'{number} tests'} {reason}")
            figures = " | ".join(str(counts[word]) for word in ("passed", "failed", "skipped"))
            lines.append(f"| {environment} | {mode} | {figures} |")
    return "\n".join(lines + details) + "\n"


def main() -> None:
    """Run both, and keep the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of RecBole's repository")
    checkout = parser.parse_args().checkout.resolve()
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    stock, plugin = (run_all(mode == MODES[1], checkout) for mode in MODES)
    file = HERE / "recbole-tests.json"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if kept.get("recbole") != commit:
        kept = {"recbole": commit, "tests": [], "environments": {}}
    kept["tests"] = sorted(plugin)
    kept["environments"]["old" if np.__version__ < "2" else "today's"] = {
        "versions": {"Python": platform.python_version(), **{name: installed(name) for name in PACKAGES}},
        MODES[0]: by_reason(stock),
        MODES[1]: by_reason(plugin),
    }
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    file.with_suffix(".md").write_text(table(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
