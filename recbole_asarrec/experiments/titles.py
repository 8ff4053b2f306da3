"""Names of items, where a dataset's ``.item`` file has them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

_COLUMNS = ("title", "movie_title", "item_name", "name")
_LONGEST = 60


def read_titles(dataset: Any, tokens: Collection[str]) -> dict[str, str]:
    """Titles of some items, by token; nothing for a dataset without titles.

    Args:
        dataset: a RecBole dataset; its ``.item`` file is read, whether or not ``load_col`` names the title.
        tokens: the items wanted.
    """
    path = Path(dataset.dataset_path) / f"{dataset.dataset_name}.item"
    if not path.is_file():
        return {}
    separator = dataset.config["field_separator"]
    titles = {}
    with open(path, encoding=dataset.config["encoding"] or "utf-8", errors="replace") as lines:
        head = [field.partition(":")[0] for field in next(lines, "").rstrip("\n").split(separator)]
        named = [column for column in _COLUMNS if column in head]
        if dataset.iid_field not in head or not named:
            return {}
        item, title = head.index(dataset.iid_field), head.index(named[0])
        for line in lines:
            fields = line.rstrip("\n").split(separator)
            if len(fields) > max(item, title) and fields[item] in tokens and fields[title].strip():
                titles[fields[item]] = fields[title].strip()[:_LONGEST]
    return titles
