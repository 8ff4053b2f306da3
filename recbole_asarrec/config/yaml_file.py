"""Configuration files read as data: no Python objects, no bombs of aliases, no key said twice."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml

from recbole_asarrec.errors import ConfigError

_MOST_NODES = 100_000  # of a file with its aliases written out


class _Loader(yaml.SafeLoader):
    """YAML's plain types, and ``1e-3`` a number as in RecBole's own loader."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9_]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def read_yaml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The keys and values of a configuration file.

    Raises:
        ConfigError: the file cannot be read, is no YAML, asks for Python objects, grows beyond all bounds by
            its aliases, names a key twice, or is no mapping of keys to values.
    """
    file = Path(path)
    name = f"The configuration file '{file}'"
    try:
        return parse_yaml(file.read_bytes(), name)
    except FileNotFoundError as error:
        raise ConfigError(f"{name} does not exist.") from error
    except OSError as error:
        raise ConfigError(f"{name} cannot be read ({error.strerror}).") from error


def parse_yaml(content: bytes, name: str) -> dict[str, Any]:
    """:func:`read_yaml` of a file's content; ``name`` begins the sentence that says what is wrong."""
    node = compose_yaml(content, name)
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        kind = "list" if isinstance(node, yaml.SequenceNode) else "single value"
        raise ConfigError(f"{name} must hold lines 'key: value', but holds a {kind}.")
    keys = construct_yaml(node, name)
    for key in keys:
        if not isinstance(key, str):
            raise ConfigError(f"{name} has the key {key!r}, which is no word.")
    return keys


def compose_yaml(content: bytes, name: str) -> yaml.Node | None:
    """The nodes of a YAML text, bounded and without keys given twice; nothing for an empty text."""
    try:
        node = _Loader(content.decode("utf-8-sig")).get_single_node()
        if node is not None:
            _expanded_size(node, {}, name)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8 text; save it as UTF-8.") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{name} is not valid YAML: {_place(error)}.") from error
    except RecursionError as error:
        raise ConfigError(f"{name} is nested too deeply.") from error
    return node


def construct_yaml(node: yaml.Node | None, name: str) -> Any:
    """The plain value of a node."""
    try:
        return None if node is None else _Loader("").construct_document(node)
    except (yaml.YAMLError, ValueError, TypeError) as error:  # a date of a thirteenth month is a ValueError
        raise ConfigError(f"{name} may hold plain values only: {_place(error)}.") from error


def _place(error: Exception) -> str:
    """What a parser found and where, on one line."""
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    mark = getattr(error, "problem_mark", None)
    return f"{problem} in line {mark.line + 1}" if mark else problem


def _expanded_size(node: yaml.Node, sizes: dict[int, int], name: str) -> int:
    """How many nodes there are once aliases are written out; ``sizes`` keeps what is known by node."""
    known = sizes.get(id(node))
    if known == 0:  # begun and not finished
        raise ConfigError(f"{name} has an alias that holds itself.")
    if known:
        return known
    sizes[id(node)] = 0
    children: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        _refuse_twice(node, name)
        children = [part for pair in node.value for part in pair]
    size = 1
    for child in children:
        size += _expanded_size(child, sizes, name)
        if size > _MOST_NODES:
            raise ConfigError(f"{name} grows beyond {_MOST_NODES:,} values by its aliases; write it out.")
    sizes[id(node)] = size
    return size


def _refuse_twice(node: yaml.MappingNode, name: str) -> None:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{name} has a key in line {line} that is no word.")
        if key.value in lines:
            raise ConfigError(
                f"{name} has the key '{key.value}' twice, in lines {lines[key.value]} and {line}."
            )
        lines[key.value] = line
