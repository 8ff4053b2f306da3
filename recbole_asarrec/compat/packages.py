"""Today's packages under RecBole 1.2.1: what has to be patched before RecBole can be imported.

RecBole's quick start imports ``ray.tune``, and ray ≤ 2.6.3, which it asks for, does not import beside
numpy 2 or setuptools ≥ 81. It needs ray only to tune with it, so a stand-in serves for everything else.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import dok_matrix

patched: list[str] = []  # for `python -m recbole_asarrec doctor`


class _AbsentTune(ModuleType):
    """``ray.tune`` where ray cannot be imported: reporting does nothing, anything else explains."""

    def __init__(self, reason: str) -> None:
        super().__init__("ray.tune")
        self._reason = reason

    def report(self, **metrics: float) -> None:
        """Outside a tuning session ray's own ``report`` has no effect either."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(
            f"Tuning with ray needs a ray that imports, but: {self._reason}. "
            "Install it with: pip install 'ray[tune]' 'setuptools<81' 'numpy<2'"
        )


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


@contextmanager
def ray_for_recbole() -> Iterator[None]:
    """Let RecBole's ``from ray import tune`` succeed; no stand-in is left behind for anybody else.

    A ray that imports without its tune stays as it is: this process may be one of its workers.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the old ray complains of its own pkg_resources
            importlib.import_module("ray.tune")
    except Exception as error:  # ray fails in many ways: ImportError, AttributeError, TypeError …
        reason = f"{type(error).__name__}: {error}"
        absent = "ray.tune" if "ray" in sys.modules else "ray"
        _forget(absent)
        ray: Any = sys.modules.setdefault("ray", ModuleType("ray"))
        ray.tune = sys.modules["ray.tune"] = _AbsentTune(reason)
        patched.append(f"{absent} does not import ({reason}): a stand-in serves RecBole")
        try:
            yield
        finally:
            del ray.tune
            _forget(absent)
    else:
        yield


def numpy_aliases() -> None:
    """Give numpy the names that RecBole's ``Config`` gives it, where numpy has none of its own."""
    aliases = {
        "bool": np.bool_,
        "int": np.int_,
        "float": np.float64,
        "complex": np.complex128,
        "object": np.object_,
        "str": np.str_,
        "long": np.int_,
        "unicode": np.str_,
    }
    added = [name for name in aliases if name not in vars(np)]
    for name in added:
        setattr(np, name, aliases[name])
    if added:
        patched.append("numpy." + ", numpy.".join(added) + ": names that numpy dropped and RecBole uses")


def scipy_update() -> None:
    """Give scipy's ``dok_matrix`` the method by which RecBole's graph models fill it."""
    if not hasattr(dok_matrix, "_update"):
        dok_matrix._update = lambda self, entries: self._dict.update(entries)
        patched.append("scipy's dok_matrix._update: a method that scipy dropped and RecBole uses")


def hyperopt_generator(seed: int) -> np.random.RandomState | np.random.Generator:
    """A source of random numbers as the installed hyperopt wants it: another class from 0.2.6 on."""
    version = importlib.import_module("hyperopt").__version__
    old = [int(number) for number in version.split(".")[:3]] < [0, 2, 6]
    return np.random.RandomState(seed) if old else np.random.default_rng(seed)
