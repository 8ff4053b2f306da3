"""The names a batch gives to its columns."""

from __future__ import annotations

from typing import NamedTuple


class Columns(NamedTuple):
    """What a batch calls its users, histories, their lengths and the items that come next."""

    user: str
    items: str
    length: str
    target: str
