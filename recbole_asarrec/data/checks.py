"""What can be wrong with a user's atomic files, said before RecBole trips over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import pandas as pd

from recbole_asarrec.data.atomic_file import count_rows, encoding_of, read_header
from recbole_asarrec.errors import DataError, nearest
from recbole_asarrec.shell import typed


def check_name(name: str) -> None:
    """A dataset's name is the name of its folder, and of nothing outside the data folder."""
    outside = any(sign in name for sign in "/\\\0") or PureWindowsPath(name).drive
    if outside or not name.strip(" ."):
        raise DataError(
            f"A dataset cannot be called {name!r}: its name is that of a folder in data_path; "
            "set data_path to the folder above it."
        )


def how_to_prepare(name: str, folder: str) -> str:
    """What to do where a dataset's folder is not there."""
    above = Path(folder).parent
    where = [] if above == Path("dataset") else ["--data_path", str(above)]
    command = typed(["python", "-m", "recbole_asarrec", "prepare", name, "--from", "FILE", *where])
    return f"put {name}.inter there or make it of a raw file with: {command}"


def check_dataset_exists(name: str, folder: str, url: str | None) -> None:
    """A folder that is not there is an error, unless RecBole knows where to download it."""
    if url is None:
        raise DataError(
            f"There is no dataset '{name}': the folder '{Path(folder).absolute()}' does not exist and "
            "RecBole knows no download of that name; set data_path to the folder above it, or "
            f"{how_to_prepare(name, folder)}"
        )


def find_inter_file(name: str, folder: str) -> Path:
    """The file ``<name>.inter`` of a dataset; where it is not there, the error names what is."""
    file = Path(folder) / f"{name}.inter"
    if not Path(folder).is_dir():
        raise DataError(f"'{folder}' must be the folder of the dataset '{name}', but is a file.")
    if file.is_dir():
        raise DataError(f"'{file.absolute()}' must be a file, but is a folder.")
    if not file.is_file():
        there = ", ".join(sorted(p.name for p in Path(folder).iterdir())[:5]) or "nothing"
        raise DataError(f"The file '{file.absolute()}' does not exist; the folder holds {there}.")
    return file


def check_columns(file: Path, config: Any) -> None:
    """Read the header of an ``.inter`` file and name what is missing in it."""
    fields = read_header(file, config["field_separator"], encoding_of(config))
    needed = ["USER_ID_FIELD", "ITEM_ID_FIELD"]
    if config["MODEL_TYPE"].name == "SEQUENTIAL":
        needed.append("TIME_FIELD")
    loaded = (config["load_col"] or {}).get("inter", "*")
    if loaded in ("*", None):
        loaded = fields
    for key in [key for key in needed if config[key] is not None]:  # RecBole can do without users and items
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
    if "TIME_FIELD" in needed and fields[config["TIME_FIELD"]] != "float":
        raise DataError(
            f"The column '{config['TIME_FIELD']}' of '{file}' must be of the type float, "
            f"but is of the type {fields[config['TIME_FIELD']]}."
        )


def check_rows(interactions: pd.DataFrame, file: Path, config: Any) -> None:
    """What RecBole would mend in silence: lines swallowed by a quotation mark, and times that are none.

    RecBole fills a missing time with the mean of all, which puts the interaction anywhere in the history.
    """
    separator = config["field_separator"]
    lines = count_rows(file, separator, encoding_of(config)) if len(separator) == 1 else len(interactions)
    if len(interactions) != lines:
        raise DataError(
            f"The file '{file}' has {lines} lines after its first, but {len(interactions)} rows are read; "
            "look for quotation marks at the beginning of a value."
        )
    field = config["TIME_FIELD"]
    if config["MODEL_TYPE"].name == "SEQUENTIAL" and field in interactions:
        wrong = ~np.isfinite(interactions[field].to_numpy(dtype=float))
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"{int(wrong.sum())} rows of '{file}' have no finite {field}, the first is row {row + 1} "
                f"({interactions[field].iloc[row]}); give every row a time or leave it out."
            )


def check_not_empty(interactions: pd.DataFrame, name: str, config: Any) -> None:
    """Nothing is left after RecBole's filters."""
    if interactions.empty:
        filters = ("user_inter_num_interval", "item_inter_num_interval", "val_interval")
        used = [f"{key}: {config[key]}" for key in filters if config[key] not in (None, "[0,inf)")]
        remedy = f"loosen {'; '.join(used)}" if used else "the file has a header and no rows"
        raise DataError(f"No interaction of '{name}' is left after filtering; {remedy}.")


def check_history_lengths(users: pd.Series, name: str) -> None:
    """Nobody has a history to predict from."""
    if not users.duplicated().any():
        raise DataError(
            f"Every user of '{name}' has one interaction, so there is no history to predict from; "
            "a sequential model needs users with several."
        )


def check_split(datasets: Sequence[Any], name: str, config: Any) -> None:
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


def check_catalogue(items: int, name: str, config: Any) -> None:
    """Nobody can be shown more items than there are; RecBole would say so after the first epoch."""
    topk = max(config["topk"])
    if config["eval_type"].name == "RANKING" and topk > items:
        raise DataError(f"'{name}' has {items} items, fewer than topk ({topk}); lower the key topk.")
