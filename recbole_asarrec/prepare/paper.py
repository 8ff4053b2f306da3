"""The paper's datasets: their names here and in RecBole's list of downloads, and their statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A dataset as it was published.

    Attributes:
        users, items, interactions: its size.
        recbole: RecBole's name of it.
        source: where the figures are from.
        users_sampled: how many users were drawn before the filter; infinite for all.
        item_core: the fewest interactions an item has; 0 for an item filter that does nothing.
    """

    users: int
    items: int
    interactions: int
    recbole: str
    source: str = "paper"
    users_sampled: float = math.inf
    item_core: int = 0


USER_CORE = 5  # the fewest interactions a user has, in every one of them

# Games and Arts are the edition of 2018. MIND's users are a sample; the paper does not say how it was drawn:
# 200,000 is a guess. Of MovieLens' films it seems to count the whole catalogue, rated or not.
# Beauty (2014, 5-core) is not in the paper, but in most tables that one wants to compare with.
PUBLISHED = {
    "amazon-beauty": Published(22_363, 12_101, 198_502, "amazon-beauty", "5-core", item_core=5),
    "amazon-games": Published(61_521, 33_243, 541_789, "amazon-video-games-18"),
    "amazon-arts": Published(71_364, 61_505, 600_989, "amazon-arts-crafts-sewing-18"),
    "mind": Published(152_909, 63_608, 4_186_679, "mind-large-train", users_sampled=200_000),
    "ml-20m": Published(138_493, 27_278, 20_000_263, "ml-20m"),
}
LABELLED = {"mind"}  # RecBole's file has a column that the property file filters by, so ours has it too


def recbole_name(name: str) -> str:
    """What RecBole's list of downloads calls a dataset."""
    return PUBLISHED[name].recbole if name in PUBLISHED else name
