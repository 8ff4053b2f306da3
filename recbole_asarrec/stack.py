"""Today's packages under RecBole 1.2.1: what has to be mended before RecBole can be imported.

RecBole's quick start imports ``ray.tune``, and ray ≤ 2.6.3, which it asks for, does not import beside
numpy 2 or setuptools ≥ 81. It needs ray only to tune with it, so a stand-in serves for everything else.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
from scipy.sparse import dok_matrix

mended: list[str] = []  # for `python -m recbole_asarrec doctor`


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


def _forget_ray() -> None:
    for name in [name for name in sys.modules if name == "ray" or name.startswith("ray.")]:
        del sys.modules[name]


@contextmanager
def ray_for_recbole() -> Iterator[None]:
    """Let RecBole's ``from ray import tune`` succeed; no stand-in is left behind for anybody else."""
    try:
        importlib.import_module("ray.tune")
    except Exception as error:  # ray fails in many ways: ImportError, AttributeError, TypeError …
        _forget_ray()
        stand_in = ModuleType("ray")
        stand_in.tune = _AbsentTune(f"{type(error).__name__}: {error}")  # type: ignore[attr-defined]
        sys.modules["ray"], sys.modules["ray.tune"] = stand_in, stand_in.tune  # type: ignore[attr-defined]
        mended.append(f"ray does not import ({type(error).__name__}: {error}): a stand-in serves RecBole")
        try:
            yield
        finally:
            _forget_ray()
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
        mended.append("numpy." + ", numpy.".join(added) + ": names that numpy dropped and RecBole uses")


def scipy_update() -> None:
    """Give scipy's ``dok_matrix`` the method by which RecBole's graph models fill it."""
    if not hasattr(dok_matrix, "_update"):
        dok_matrix._update = lambda self, entries: self._dict.update(entries)
        mended.append("scipy's dok_matrix._update: a method that scipy dropped and RecBole uses")
