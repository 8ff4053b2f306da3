"""How RecBole's functions are checked and replaced.

A hook names a function of RecBole, the parameters it is known to have, and what takes its place.
:func:`install` checks all of them before it changes any, so a RecBole release that moved one is refused by
name instead of failing somewhere inside.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from recbole_asarrec.compat import packages
from recbole_asarrec.version import __version__

RECBOLE = "1.2.1"
_SINE = "recbole.model.sequential_recommender.sine"  # switches anomaly mode on when imported


class Hook(NamedTuple):
    """One function of RecBole.

    Attributes:
        parameters: those it is known to have.
        lines: source lines it must contain, because they are changed.
        make: original → replacement.
        reason: why it is replaced.
    """

    parameters: str
    lines: tuple[str, ...]
    make: Callable[[Callable], Callable]
    reason: str


hooks: dict[str, Hook] = {}  # by "module:attribute"
originals: dict[str, Callable[..., Any]] = {}


class RecBoleChanged(ImportError):
    """The installed RecBole is not the one these hooks are made for."""


def hook(parameters: str, *targets: str) -> Callable[[Callable], Callable]:
    """Register a maker, ``original → replacement``, for functions with these parameters.

    Its docstring says why.
    """

    def register(make: Callable[[Callable], Callable]) -> Callable:
        reason = (make.__doc__ or "").strip()
        hooks.update({target: Hook(parameters, (), make, reason) for target in targets})
        return make

    return register


def patch_source(
    parameters: str, targets: str | tuple[str, ...], reason: str, *edits: tuple[str, str]
) -> None:
    """Register lines of a function that have to change; ``reason`` is for the doctor's report."""

    def make(original: Callable) -> Callable:
        if (note := f"{original.__qualname__} {reason}") not in packages.patched:
            packages.patched.append(note)
        source = textwrap.dedent(inspect.getsource(original))
        for old, new in edits:
            source = source.replace(old, new)
        made: dict[str, Callable] = {}
        exec(compile(source, inspect.getfile(original), "exec"), original.__globals__, made)
        return functools.wraps(original)(made[original.__name__])

    lines = tuple(old for old, _ in edits)
    for target in (targets,) if isinstance(targets, str) else targets:
        hooks[target] = Hook(parameters, lines, make, f"{reason}.")


def locate(target: str) -> tuple[Any, str]:
    """The module or class that holds a target, and its name there."""
    module, _, path = target.partition(":")
    *owners, name = path.split(".")
    return functools.reduce(getattr, owners, importlib.import_module(module)), name


def _problem(target: str, known: Hook) -> str:
    try:
        owner, name = locate(target)
        function = originals.get(target) or vars(owner)[name]
    except (ImportError, AttributeError, KeyError):
        return "is gone"
    found = " ".join(inspect.signature(function).parameters)
    if found != known.parameters:
        return f"takes ({found}), not ({known.parameters})"
    missing = [line for line in known.lines if line not in inspect.getsource(function)]
    return f"has no line '{missing[0]}'" if missing else ""


def check() -> None:
    """Compare every hook with the installed RecBole.

    Raises:
        RecBoleChanged: naming the first hook that is gone or has changed.
    """
    for target, known in hooks.items():
        if problem := _problem(target, known):
            version = importlib.import_module("recbole").__version__
            raise RecBoleChanged(
                f"RecBole {version} does not fit recbole_asarrec {__version__}, which is made for {RECBOLE}: "
                f"{target} {problem}. Install it with: pip install recbole=={RECBOLE}"
            )


def install() -> None:
    """Import RecBole, check the hooks and put them in place; a second call does nothing."""
    if originals:
        return
    anomaly = torch.is_anomaly_enabled() and _SINE not in sys.modules
    packages.numpy_aliases()
    packages.scipy_update()
    with packages.ray_for_recbole():
        importlib.import_module("recbole.quick_start")
        importlib.import_module("recbole.model.sequential_recommender")
    if torch.is_anomaly_enabled() and not anomaly:
        packages.patched.append("anomaly mode, which RecBole switches on for the whole process, is off")
    torch.autograd.set_detect_anomaly(anomaly)
    check()
    for target, known in hooks.items():
        owner, name = locate(target)
        originals[target] = getattr(owner, name)
        setattr(owner, name, known.make(originals[target]))
