"""A grid file: models × augmentations × datasets × noise × seeds × hyper-parameters, checked before it runs.

.. code-block:: yaml

    models: [AsarSASRec, FEARec]
    augmentations: [none, asar, [insert, mask], {augmentation: mask, contrastive_weight: 0.3}]
    datasets: [ml-100k]
    noise_ratios: [0, 0.2]
    seeds: [2020, 2021, 2022]
    sweep: {candidates: [0, 3, 5]}        # every combination of these
    common: {training: all_positions}     # keys of every run
    tuned: winners.yaml                   # keys by model, augmentation and dataset, made by `tune`
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from recbole_asarrec.config.yaml_file import compose_yaml, construct_yaml
from recbole_asarrec.errors import ConfigError, UserError, nearest
from recbole_asarrec.experiments.records import Spec
from recbole_asarrec.experiments.run import configure

_AXES = ("models", "augmentations", "datasets", "noise_ratios", "seeds")
_PARTS = (*_AXES, "sweep", "common", "tuned")
_MOST_RUNS = 100_000
_ABSENT = (None, 0)  # a part that the file does not have, in place of its node and line


class Cell(NamedTuple):
    """A value of the file and the line it stands on, counted from 1."""

    value: Any
    line: int


class Grid(NamedTuple):
    """A grid file, read.

    Attributes:
        file: its path, for messages.
        axes: the values of each axis.
        sweep: values of each swept key.
        common: keys of every run.
        tuned: entries of a winners file.
    """

    file: Path
    axes: dict[str, list[Cell]]
    sweep: dict[str, list[Cell]]
    common: dict[str, Cell]
    tuned: list[dict[str, Any]]


def read_grid(path: str | Path) -> Grid:
    """Read a grid file.

    Raises:
        ConfigError: naming the file, the line and what is wrong there.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"The grid file '{file}' does not exist.")
    root = compose_yaml(file.read_bytes(), f"The grid file '{file}'")
    parts = _mapping(file, root, required=True)
    for name, (_, line) in parts.items():
        if name not in _PARTS:
            raise ConfigError(f"{file}, line {line}: there is no part '{name}'{nearest(name, _PARTS)}.")
    axes = {name: _list(file, *parts[name]) for name in _AXES if name in parts}
    for name in ("models", "datasets", "seeds"):
        if name not in axes:
            raise ConfigError(f"The grid file '{file}' must have the part '{name}'.")
    sweep = {
        key: _list(file, *found) for key, found in _mapping(file, parts.get("sweep", _ABSENT)[0]).items()
    }
    common = {
        key: Cell(_construct(file, node), line)
        for key, (node, line) in _mapping(file, parts.get("common", _ABSENT)[0]).items()
    }
    tuned: list[dict[str, Any]] = []
    if "tuned" in parts:
        node, line = parts["tuned"]
        winners = file.parent / str(_construct(file, node))
        if not winners.is_file():
            raise ConfigError(f"{file}, line {line}: the file '{winners}' does not exist.")
        tuned = construct_yaml(compose_yaml(winners.read_bytes(), f"'{winners}'"), f"'{winners}'")
        entry = {"model", "augmentation", "dataset", "keys"}
        if not isinstance(tuned, list) or not all(
            isinstance(one, dict) and entry <= one.keys() for one in tuned
        ):
            raise ConfigError(f"{file}, line {line}: '{winners}' is no file of winners; `tune` makes one.")
    return Grid(file, axes, sweep, common, tuned)


def _mapping(file: Path, node: Any, required: bool = False) -> dict[str, tuple[Any, int]]:
    """Keys of a YAML mapping with their value nodes and lines; nothing where there is none."""
    if node is None and not required:
        return {}
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1 if node is not None else 1
        raise ConfigError(f"{file}, line {line}: keys with values (key: value) must stand here.")
    found: dict[str, tuple[Any, int]] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        found[key.value] = (value, line)
    return found


def _list(file: Path, node: Any, line: int) -> list[Cell]:
    if not isinstance(node, yaml.SequenceNode):
        raise ConfigError(f"{file}, line {line}: a list must stand here, as [a, b].")
    if not node.value:
        raise ConfigError(f"{file}, line {line}: the list is empty, so there is nothing to run.")
    return [Cell(_construct(file, one), one.start_mark.line + 1) for one in node.value]


def _construct(file: Path, node: Any) -> Any:
    return construct_yaml(node, f"{file}, line {node.start_mark.line + 1}")


def _spec(grid: Grid, chosen: Mapping[str, Any], swept: Mapping[str, Any]) -> Spec:
    """The run at one place of the grid."""
    model, dataset = chosen["models"], chosen["datasets"]
    keys: dict[str, Any] = {name: cell.value for name, cell in grid.common.items()}
    if str(model).startswith("Asar"):
        asked = chosen.get("augmentations", "asar")
        keys.update(asked if isinstance(asked, dict) else {"augmentation": asked})
    for entry in grid.tuned:
        same = (entry["model"], entry["dataset"]) == (model, dataset)
        if same and entry["augmentation"] == keys.get("augmentation"):
            keys.update(entry["keys"])
    if ratio := chosen.get("noise_ratios", 0):
        keys["noise_ratio"] = ratio
    return Spec(model, dataset, chosen["seeds"], {**keys, **swept})


def _places(grid: Grid) -> Iterator[tuple[dict[str, Cell], dict[str, Cell]]]:
    """Every combination of axes and of swept keys.

    Seeds turn slowest, so that an unfinished grid has compared everything once.
    """
    names = ["seeds", *(name for name in grid.axes if name != "seeds")]
    for cells in itertools.product(*(grid.axes[name] for name in names), *grid.sweep.values()):
        yield dict(zip(names, cells)), dict(zip(grid.sweep, cells[len(names) :]))


def expand(grid: Grid) -> list[Spec]:
    """All runs of a grid, each once.

    Stock models have no views: the augmentation axis gives each of them one run.
    """
    count = 1
    for cells in (*grid.axes.values(), *grid.sweep.values()):
        count *= len(cells)
    if count > _MOST_RUNS:
        raise ConfigError(f"The grid '{grid.file}' asks for {count:,} runs; {_MOST_RUNS:,} are the most.")
    specs = [_spec(grid, _values(chosen), _values(swept)) for chosen, swept in _places(grid)]
    return list({spec.run: spec for spec in specs}.values())


def _values(cells: Mapping[str, Cell]) -> dict[str, Any]:
    return {name: cell.value for name, cell in cells.items()}


def check(grid: Grid, data_path: str) -> None:
    """Build configurations until every value of the file was in one: first each by itself, then together.

    Raises:
        ConfigError: with the line of the first value that no run could use.
    """
    first = {name: cells[0] for name, cells in grid.axes.items()}
    for cell in grid.axes["seeds"]:
        if isinstance(cell.value, bool) or not isinstance(cell.value, int) or cell.value < 0:
            raise _at(grid, cell, f"a seed must be a whole number, at least 0, but is {cell.value!r}.")
    bare = grid._replace(common={}, tuned=[])
    for axis in ("models", "datasets", "augmentations", "noise_ratios"):
        for cell in grid.axes.get(axis, []):
            _try(bare, {**first, axis: cell}, {}, cell, data_path)
    for key, cell in grid.common.items():
        _try(bare, first, {key: cell.value}, cell, data_path)
    for key, cells in grid.sweep.items():
        for cell in cells:
            _try(bare, first, {key: cell.value}, cell, data_path)
    together = {(spec.model, spec.augmentation, spec.dataset): spec for spec in expand(grid)}
    for spec in together.values():
        _try_spec(spec, data_path, str(grid.file))


def _try(grid: Grid, chosen: Mapping[str, Cell], more: Mapping[str, Any], cell: Cell, data_path: str) -> None:
    _try_spec(_spec(grid, _values(chosen), more), data_path, f"{grid.file}, line {cell.line}")


def _try_spec(spec: Spec, data_path: str, where: str) -> None:
    try:
        folder = Path(configure(spec, data_path=data_path, state="error")["data_path"])
    except (UserError, ValueError, TypeError, AttributeError) as error:
        text = str(error)
        raise ConfigError(f"{where}: {text[:1].lower()}{text[1:]}") from error
    if not folder.is_dir():
        raise ConfigError(f"{where}: there is no dataset '{spec.dataset}': no folder '{folder}'.")


def _at(grid: Grid, cell: Cell, text: str) -> ConfigError:
    return ConfigError(f"{grid.file}, line {cell.line}: {text}")
