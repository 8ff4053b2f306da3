"""The size of a dataset, beside what was published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recbole_asarrec.prepare.interactions import Interactions
from recbole_asarrec.prepare.paper import PUBLISHED, USER_CORE


@dataclass(frozen=True)
class Statistics:
    """Users, items and interactions."""

    users: int
    items: int
    interactions: int

    @classmethod
    def of(cls, interactions: Interactions) -> Statistics:
        """Count what occurs."""
        return cls(len(np.unique(interactions.user)), len(np.unique(interactions.item)), len(interactions))

    def rows(self) -> list[str]:
        """As the paper's table writes them: users, items, interactions, average length, sparsity."""
        counts = [f"{count:,}" for count in (self.users, self.items, self.interactions)]
        if not self.interactions:
            return [*counts, "–", "–"]
        length, filled = self.interactions / self.users, self.interactions / (self.users * self.items)
        return [*counts, f"{length:.1f}", f"{1 - filled:.2%}"]


def table(name: str, interactions: Interactions) -> str:
    """What was found, what is left of it for training, and what was published under this name."""
    published = PUBLISHED.get(name)
    of_item = published.item_core if published else 0
    left = interactions.core(USER_CORE, of_item)
    heading = f"≥ {USER_CORE} a user and item" if of_item else f"≥ {USER_CORE} a user"
    columns = [
        ["", "users", "items", "interactions", "average length", "sparsity"],
        ["found", *Statistics.of(interactions).rows()],
        [heading, *Statistics.of(left).rows()],
    ]
    if published:
        figures = Statistics(published.users, published.items, published.interactions)
        columns.append([published.source, *figures.rows()])
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
        for row in zip(*columns)
    )
