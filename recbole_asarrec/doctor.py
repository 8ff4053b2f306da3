"""``python -m recbole_asarrec doctor``: what is installed, what was mended, what would not work."""

from __future__ import annotations

import argparse
import importlib.util
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from recbole_asarrec import hooks, stack
from recbole_asarrec.version import __version__

_PACKAGES = (
    "recbole",
    "torch",
    "numpy",
    "pandas",
    "scipy",
    "scikit-learn",
    "pyyaml",
    "tensorboard",
    "plotly",
    "ray",
    "setuptools",
)
_OPTIONAL = {
    "ray": "RecBole's tuning with ray",
    "hyperopt": "RecBole's HyperTuning",
    "wandb": "log_wandb: True",
    "lightgbm": "the models lightgbm",
    "xgboost": "the model xgboost",
    "dgl": "RecBole's DGL graphs",
}


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def report() -> str:
    """The whole report as text."""
    lines = [f"recbole_asarrec {__version__} on Python {platform.python_version()}", "", "Installed"]
    lines += [f"  {package:<12} {_installed(package)}" for package in _PACKAGES]
    device = (
        torch.cuda.get_device_name(0)
        if torch.cuda.is_available()
        else f"CPU, {torch.get_num_threads()} threads"
    )
    lines += [f"  {'device':<12} {device}", "", "Mended"]
    lines += [f"  {what}" for what in stack.mended] or ["  nothing needed mending"]
    lines += [f"  {len(hooks.hooks)} hooks of RecBole are in place and fit", "", "Would not work"]
    absent = [
        f"  {purpose}: {package} is not installed"
        for package, purpose in _OPTIONAL.items()
        if importlib.util.find_spec(package) is None
    ]
    if (
        any(what.startswith("ray does not import") for what in stack.mended)
        and _installed("ray") != "not installed"
    ):
        absent.insert(0, "  RecBole's tuning with ray: ray is installed but does not import (see above)")
    lines += absent or ["  nothing"]
    return "\n".join(lines)


HELP = "say what is installed, what was mended, what would not work"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The doctor takes none."""


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    print(report())
