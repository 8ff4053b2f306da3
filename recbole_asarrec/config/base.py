"""What settings classes are made of: keys with a default, a rule and a meaning, checked when read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from recbole_asarrec.config.rules import Rule, check_value


def key(default: Any, rule: Rule, meaning: str, symbol: str = "", section: str = "") -> Any:
    """A configuration key; ``section`` is the heading that starts with it."""
    return field(
        default=default,
        metadata={"rule": rule, "meaning": meaning, "symbol": symbol, "section": section},
    )


class Settings:
    """Base of the settings classes: reading from a mapping with every value checked."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The configuration keys, in order."""
        return tuple(f.name for f in fields(cls))  # type: ignore[arg-type]

    @classmethod
    def read(cls, config: Mapping[str, Any] | Any) -> Any:
        """Take this class's keys from a RecBole config or a dict.

        Raises:
            ConfigError: naming the key, the value and what it should be.
        """
        values = {}
        for f in fields(cls):  # type: ignore[arg-type]
            values[f.name] = config[f.name]
            check_value(f.name, values[f.name], f.metadata["rule"])
        return cls(**values)
