"""Who is refused and who is warned: the one place that decides it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger

from recbole_asarrec.errors import UserError


def is_ours(model_class: type) -> bool:
    """Whether a model is of this package, or a backbone augmented by it."""
    return hasattr(model_class, "backbone") or model_class.__module__.startswith("recbole_asarrec")


@contextmanager
def strict_for_ours(model_class: type) -> Iterator[None]:
    """Checks of what RecBole itself would accept go inside.

    A model of this package is refused what a check finds. For a stock model it is a warning, and RecBole goes
    on as it always did: scripts and data that work without the plugin work with it.
    """
    try:
        yield
    except UserError as problem:
        if is_ours(model_class):
            raise
        getLogger().warning(str(problem))
