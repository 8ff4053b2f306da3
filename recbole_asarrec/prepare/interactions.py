"""All events of a dataset as numbers: sixteen bytes each, whatever their names are."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from recbole_asarrec.prepare.formats import Event


@dataclass(frozen=True)
class Interactions:
    """Who interacted with what, and when.

    Attributes:
        users: names, in the order they first appear; some may be left without interactions.
        items: likewise.
        user: index into ``users``, ``[N]``.
        item: index into ``items``, ``[N]``.
        time: ``[N]``.
    """

    users: list[str]
    items: list[str]
    user: np.ndarray
    item: np.ndarray
    time: np.ndarray

    def __len__(self) -> int:
        return len(self.user)

    def take(self, rows: np.ndarray) -> Interactions:
        """These rows alone, by index or mask."""
        return replace(self, user=self.user[rows], item=self.item[rows], time=self.time[rows])

    def by_user(self) -> Interactions:
        """Users together and each oldest first; events of equal time stay in the order of the file."""
        return self.take(np.lexsort((self.time, self.user)))

    def without_duplicates(self) -> Interactions:
        """The same user, item and time twice is one event: the first in the file."""
        order = np.lexsort((self.item, self.time, self.user))
        again = np.zeros(len(self), dtype=bool)
        columns = [column[order] for column in (self.user, self.item, self.time)]
        again[order[1:]] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
        return self.take(~again)

    def numbered(self) -> Interactions:
        """Each event's time is its place in the user's history; the rows are ordered by user."""
        _, start, count = np.unique(self.user, return_index=True, return_counts=True)
        return replace(self, time=np.arange(len(self), dtype=float) - np.repeat(start, count))

    def sample(self, count: int, seed: int) -> Interactions:
        """All events of ``count`` users drawn at random."""
        chosen = np.zeros(len(self.users), dtype=bool)
        chosen[np.random.default_rng(seed).choice(len(self.users), count, replace=False)] = True
        return self.take(chosen[self.user])

    def core(self, of_user: int, of_item: int = 0) -> Interactions:
        """Drop users and items with fewer interactions than these, until none is left to drop."""
        kept = self
        while len(kept):
            users, items = np.bincount(kept.user), np.bincount(kept.item)
            enough = (users[kept.user] >= of_user) & (items[kept.item] >= of_item)
            if enough.all():
                break
            kept = kept.take(enough)
        return kept


def collect(events: Iterable[Event]) -> Interactions:
    """Number the users and items of a stream of events."""
    users: dict[str, int] = {}
    items: dict[str, int] = {}
    user, item, time = array("i"), array("i"), array("d")
    for who, what, when in events:
        user.append(users.setdefault(who, len(users)))
        item.append(items.setdefault(what, len(items)))
        time.append(when)
    columns = (np.frombuffer(column, dtype=column.typecode) for column in (user, item, time))
    return Interactions(list(users), list(items), *columns)
