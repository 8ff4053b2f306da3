"""``recbole-asarrec doctor``: what is installed, what is broken and how to repair it.

It starts in any environment: this module imports the standard library alone and loads everything else inside
a check.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import platform
import sys

from recbole_asarrec import environment
from recbole_asarrec.environment import Problem, installed
from recbole_asarrec.version import __version__

_OPTIONAL = {
    "plotly": ("report", "pip install plotly"),
    "onnx": ("export", "pip install onnx"),
    "onnxruntime": ("export and serving", "pip install onnxruntime"),
    "faiss": ("export --ann and approximate search", "pip install faiss-cpu"),
    "ray": ("grids on several machines and RecBole's tuning with Ray", "pip install ray"),
    "hyperopt": ("RecBole's HyperTuning", "pip install hyperopt"),
    "wandb": ("log_wandb: True", "pip install wandb"),
    "lightgbm": ("the model lightgbm", "pip install lightgbm"),
    "xgboost": ("the model xgboost", "pip install xgboost"),
    "networkx": ("the model NNCF", "pip install networkx"),
}


def find_problems() -> tuple[list[Problem], list[str]]:
    """What is broken, and the fixes to RecBole that are in place where nothing is."""
    problems = environment.package_problems() + environment.recbole_problems()
    if problems:
        return problems, []
    try:
        compat = importlib.import_module("recbole_asarrec.compat")
        compat.install()
        packages = importlib.import_module("recbole_asarrec.compat.packages")
    except Exception as error:  # whatever is wrong with RecBole must be shown, not raised
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        command = f"{environment.INSTALL_RECBOLE} --force-reinstall"
        return [Problem(f"RecBole cannot be used ({reason}).", command)], []
    return [], [*packages.patched, f"{len(compat.hooks)} functions of RecBole are replaced"]


def _device() -> str:
    try:
        import torch
    except Exception:  # said among the problems
        return "unknown: torch does not import"
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    return f"CPU, {torch.get_num_threads()} threads"


def report(problems: list[Problem], fixes: list[str]) -> str:
    """The whole report as text."""
    optional = [command.split()[-1] for _, command in _OPTIONAL.values()]
    packages = ["recbole", *(package for package, _ in environment.REQUIRED.values()), *optional]
    missing = [
        f"  {purpose}: {command}"
        for module, (purpose, command) in _OPTIONAL.items()
        if importlib.util.find_spec(module) is None
    ]
    shown = [line for one in problems for line in (f"  {one.what}", f"    {one.command}")]
    sections = {
        "Installed": [
            *(f"  {package:<13} {installed(package) or '-'}" for package in packages),
            f"  {'device':<13} {_device()}",
        ],
        "Changes to RecBole": [f"  {fix}" for fix in fixes],
        "Optional and not installed": missing,
        "Problems": shown or ["  none"],
    }
    title = f"recbole-asarrec {__version__}, Python {platform.python_version()}, {platform.platform()}"
    parts = ["\n".join([name, *lines]) for name, lines in sections.items() if lines]
    return "\n\n".join([title, *parts])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The doctor takes no arguments."""


def run(arguments: argparse.Namespace) -> None:
    """The command; it exits with 1 if there is a problem."""
    problems, fixes = find_problems()
    print(report(problems, fixes))
    if problems:
        sys.exit(1)
