"""RecBole's saved datasets and data loaders are pickles: they run code when opened."""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

from recbole_asarrec.errors import DataError


def load(file: BinaryIO, config: Any) -> Any:
    """Open a pickle that RecBole saved, if the user trusts it.

    Raises:
        DataError: the key ``trust_cache`` is not set, or the file is broken.
    """
    if config["trust_cache"] is not True:
        raise DataError(
            f"'{file.name}' is a pickle, which runs code when opened; if you made it yourself, load it with "
            "the key trust_cache: True, else move it away."
        )
    try:
        return pickle.load(file)
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(
            f"'{file.name}' cannot be loaded ({type(error).__name__}: {error}); "
            "move it away and it is made anew."
        ) from error
