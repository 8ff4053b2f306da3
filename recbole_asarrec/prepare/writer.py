"""RecBole's atomic files."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tqdm import tqdm

from recbole_asarrec.prepare.interactions import Interactions

_CHUNK = 100_000
_UNFIT = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]+")


def write_inter(interactions: Interactions, path: Path, labelled: bool) -> None:
    """Write ``user_id item_id timestamp``, and a ``label`` of 1 where RecBole's own file has that column."""
    users, items = np.array(interactions.users, dtype=object), np.array(interactions.items, dtype=object)
    label_field, label = ("\tlabel:float", "\t1") if labelled else ("", "")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(f"user_id:token\titem_id:token\ttimestamp:float{label_field}\n")
        for start in tqdm(range(0, len(interactions), _CHUNK), "writing", disable=not sys.stderr.isatty()):
            rows = slice(start, start + _CHUNK)
            columns = (
                users[interactions.user[rows]],
                items[interactions.item[rows]],
                interactions.time[rows].tolist(),
            )
            file.writelines(
                f"{user}\t{item}\t{int(time) if time.is_integer() else time}{label}\n"
                for user, item, time in zip(*columns)
            )


def write_titles(titles: Mapping[str, str], interactions: Interactions, path: Path) -> int:
    """Write ``item_id title`` of the items that occur and have one; the number of them."""
    named = [
        f"{item}\t{title}\n"
        for item in (interactions.items[index] for index in np.unique(interactions.item))
        # RecBole's reader would take a quotation mark for the start of a quoted field
        if (title := _UNFIT.sub(" ", titles.get(item, "")).strip().replace('"', "'"))
    ]
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("item_id:token\ttitle:token\n")
        file.writelines(named)
    return len(named)
