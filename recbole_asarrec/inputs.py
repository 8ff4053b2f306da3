"""What can be wrong with a user's atomic files, said before RecBole trips over it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from recbole_asarrec.errors import DataError, nearest

_TYPES = ("token", "token_seq", "float", "float_seq")


def refuse_bad_name(name: str) -> None:
    """A data set's name is the name of its folder, and of nothing outside the data folder."""
    if not name.strip(" .") or any(sign in name for sign in "/\\\0"):
        raise DataError(
            f"A data set cannot be called {name!r}: its name is that of a folder in data_path; "
            "set data_path to the folder above it."
        )


def how_to_prepare(name: str, folder: str) -> str:
    """What to do where a data set's folder is not there."""
    above = Path(folder).parent
    where = "" if above == Path("dataset") else f" --data_path {shlex.quote(str(above))}"
    return (
        f"put {name}.inter there or make it of a raw file with: "
        f"python -m recbole_asarrec prepare {shlex.quote(name)} --from FILE{where}"
    )


def refuse_unknown_dataset(name: str, folder: str, url: str | None) -> None:
    """A folder that is not there is an error, unless RecBole knows where to download it."""
    if url is None:
        raise DataError(
            f"There is no data set '{name}': the folder '{Path(folder).absolute()}' does not exist and "
            "RecBole knows no download of that name; set data_path to the folder above it, or "
            f"{how_to_prepare(name, folder)}"
        )


def check_inter_file(config: Any, name: str, folder: str) -> None:
    """Read the header of ``<name>.inter`` and name what is missing in it."""
    file = Path(folder) / f"{name}.inter"
    if not file.is_file():
        there = ", ".join(sorted(p.name for p in Path(folder).iterdir())[:5]) or "nothing"
        raise DataError(f"The file '{file.absolute()}' does not exist; the folder holds {there}.")
    with open(file, encoding=config["encoding"]) as lines:
        header = lines.readline().rstrip("\r\n")
    if not header:
        raise DataError(f"The file '{file}' is empty; its first line must name the columns.")
    columns = header.split(config["field_separator"])
    for column in columns:
        field, _, kind = column.partition(":")
        if not field or kind not in _TYPES:
            raise DataError(
                f"The first line of '{file}' must name columns as 'field:type' with a type of "
                f"{', '.join(_TYPES)}, separated by {config['field_separator']!r}, but has {column!r}."
            )
    fields = [column.partition(":")[0] for column in columns]
    needed = ["USER_ID_FIELD", "ITEM_ID_FIELD"]
    if config["MODEL_TYPE"].name == "SEQUENTIAL":
        needed.append("TIME_FIELD")
    loaded = (config["load_col"] or {}).get("inter", "*")
    if loaded in ("*", None):
        loaded = fields
    for key in needed:
        if config[key] not in fields:
            raise DataError(
                f"The file '{file}' has no column '{config[key]}'{nearest(config[key], fields)}; "
                f"it has {', '.join(fields)}; set {key} if it has another name."
            )
        if config[key] not in loaded:
            raise DataError(
                f"The key load_col leaves out the column '{config[key]}', which is needed; add it."
            )
    for field in config["val_interval"] or {}:
        if field in loaded and field not in fields:
            raise DataError(
                f"The file '{file}' has no column '{field}', by which val_interval filters; "
                "add it, or set val_interval and load_col without it."
            )


def refuse_empty(interactions: pd.DataFrame, name: str, config: Any) -> None:
    """Nothing is left after RecBole's filters."""
    if interactions.empty:
        filters = ("user_inter_num_interval", "item_inter_num_interval", "val_interval")
        used = [f"{key}: {config[key]}" for key in filters if config[key] not in (None, "[0,inf)")]
        remedy = f"loosen {'; '.join(used)}" if used else "the file has a header and no rows"
        raise DataError(f"No interaction of '{name}' is left after filtering; {remedy}.")


def refuse_short_histories(users: pd.Series, name: str) -> None:
    """Nobody has a history to predict from."""
    if not users.duplicated().any():
        raise DataError(
            f"Every user of '{name}' has one interaction, so there is no history to predict from; "
            "a sequential model needs users with several."
        )


def refuse_empty_split(datasets: Sequence[Any], name: str, config: Any) -> None:
    """A split that should hold rows holds none."""
    split = config["eval_args"]["split"]
    asked = {"valid_only": (0, 1), "test_only": (0, 2)}.get(split.get("LS", ""), (0, 1, 2))
    for index in asked:
        if len(datasets[index]) == 0:
            part = ("training", "validation", "test")[index]
            raise DataError(
                f"No user of '{name}' is long enough for a {part} row with the split {split}; "
                "leaving one out for validation and one for test needs four interactions of a user."
            )
