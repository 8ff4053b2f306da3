"""Histories of raw item tokens and the options of a recommender: what both of them check and say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from logging import getLogger

from recbole_asarrec.errors import UserError


def check_options(k: int, unknown: str, **counts: int) -> None:
    """Raise a UserError that names the option that is wrong.

    Args:
        k: how many items a history gets.
        unknown: what becomes of items that training never saw.
        counts: further whole numbers, by name.
    """
    for name, value in {"k": k, **counts}.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{name} must be a whole number from 1 on, but is {value!r}.")
    if unknown not in ("skip", "refuse"):
        raise UserError(f"unknown must be 'skip' or 'refuse', but is {unknown!r}.")


def known_ids(history: Sequence[str], ids: Mapping[str, int], unknown: str) -> list[int]:
    """The ids of a history's items, without those that training never saw.

    Raises:
        UserError: it is no list, or has such an item and ``unknown`` is ``refuse``.
    """
    if isinstance(history, str):
        raise UserError(f"A history must be a list of item tokens, not the string {history!r}.")
    if unknown == "refuse":
        for token in history:
            if str(token) not in ids:
                raise UserError(f"The item {token!r} is not in the catalogue the model was trained on.")
    return [ids[token] for token in map(str, history) if token in ids]


def warn_of_skipped(skipped: int, empty: int) -> None:
    """Say once how many items were skipped and how many histories got nothing, if any."""
    if skipped or empty:
        getLogger(__name__).warning(
            f"{skipped} items that training never saw were skipped; "
            f"{empty} histories had no known item and got no recommendation."
        )
