"""What a value must be: a sentence for people and a test for the machine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recbole_asarrec.errors import ConfigError, nearest


@dataclass(frozen=True)
class Rule:
    """What a key's value must be: a sentence for people and a test for the machine."""

    text: str
    holds: Callable[[Any], bool]
    kind: str = ""  # its type, as property files name it


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def number(low: float, high: float = math.inf, *, open_low: bool = False, open_high: bool = False) -> Rule:
    """A finite number between two bounds."""
    left = f"greater than {low}" if open_low else f"at least {low}"
    right = "" if high == math.inf else f" and {'less than' if open_high else 'at most'} {high}"

    def holds(value: Any) -> bool:
        return (
            _is_number(value)
            and (value > low if open_low else value >= low)
            and (value < high if open_high else value <= high)
        )

    return Rule(f"a number {left}{right}", holds, "float")


def integer(low: int) -> Rule:
    """A whole number from ``low`` on."""
    return Rule(
        f"a whole number, at least {low}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= low,
        "int",
    )


def one_of(*names: str) -> Rule:
    """One of several words."""
    return Rule("one of " + ", ".join(names), lambda value: isinstance(value, str) and value in names, "str")


def text(meaning: str = "a text that is not empty") -> Rule:
    """A text that is not empty."""
    return Rule(meaning, lambda value: isinstance(value, str) and value != "" and "\0" not in value, "str")


def boolean() -> Rule:
    """True or False."""
    return Rule("True or False", lambda value: isinstance(value, bool), "bool")


def either(word: str | None, rule: Rule) -> Rule:
    """A word, or what another rule says."""
    kind = f"{rule.kind} or {word!r}" if word else rule.kind
    return Rule(f"{word!r} or {rule.text}", lambda value: value == word or rule.holds(value), kind)


def check_value(key: str, value: Any, rule: Rule) -> None:
    """Raise a ConfigError that names the key, its value and what it should be, unless the rule holds."""
    if not rule.holds(value):
        guess = nearest(value, re.findall(r"\w+", rule.text)) if isinstance(value, str) else ""
        shown = repr(value) if len(repr(value)) < 200 else f"{repr(value)[:200]}…"
        raise ConfigError(f"The key '{key}' must be {rule.text}, but is {shown}{guess}.")
