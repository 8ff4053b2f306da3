"""Write the property files and docs/keys.md from the plugin's settings: ``python docs/keys.py``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from recbole_asarrec.config.package_settings import PackageSettings
from recbole_asarrec.config.settings import RECBOLE_DEFAULTS, AsarSettings

ROOT = Path(__file__).parent.parent
MARK = "# Written by docs/keys.py from recbole_asarrec/config."


def literal(value: Any) -> str:
    """A value as one line of YAML."""
    if value is None:
        return "~"
    text = yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("\n...\n").strip()
    return {"true": "True", "false": "False"}.get(text, text)


def lines(settings: type) -> Iterator[str]:
    """The keys of a settings class as YAML, a line each."""
    for one in fields(settings):
        about = one.metadata
        if about["section"]:
            yield f"\n# {about['section']}"
        symbol = f" [{about['symbol']}]" if about["symbol"] else ""
        start = f"{one.name}: {literal(one.default)}"
        yield f"{start:<31} # ({about['rule'].kind}){symbol} {about['meaning']}"


def asar_yaml() -> str:
    """``properties/model/Asar.yaml``."""
    head = [
        "# Keys of every Asar model, beside those of its backbone. The symbol in brackets is the paper's.",
        MARK,
    ]
    recbole = ["\n# RecBole's keys with other defaults than RecBole's"]
    recbole += [
        f"{f'{key}: {literal(value)}':<31} # ({kind}) {about}"
        for key, (value, kind, about) in RECBOLE_DEFAULTS.items()
    ]
    return "\n".join([*head, *lines(AsarSettings), *recbole]) + "\n"


def overall_yaml() -> str:
    """``properties/overall.yaml``."""
    return (
        "\n".join(
            ["# Keys of the package for every model, stock models included.", MARK, *lines(PackageSettings)]
        )
        + "\n"
    )


def table(settings: type) -> Iterator[str]:
    """The keys of a settings class as Markdown tables, one a section."""
    for one in fields(settings):
        about = one.metadata
        if about["section"]:
            yield f"\n### {about['section']}\n"
            yield "| key | default | values | symbol | meaning |\n|---|---|---|---|---|"
        values = (
            about["rule"].text
            if one.name != "augmentation"
            else "see [other views](how-it-works.md#other-views)"
        )
        default, symbol = literal(one.default), about["symbol"]
        yield f"| `{one.name}` | `{default}` | {values} | {symbol} | {about['meaning']} |"


def keys_md() -> str:
    """``docs/keys.md``."""
    recbole = [
        f"| `{key}` | `{literal(value)}` | {about} |" for key, (value, _, about) in RECBOLE_DEFAULTS.items()
    ]
    return (
        "\n".join(
            [
                "# Configuration keys",
                f"\n<!-- {MARK[2:]} -->",
                "\nThese come beside the keys of RecBole and of the backbone. An unknown key or wrong value "
                "stops the run before any data is read.",
                "\n## Asar models",
                *table(AsarSettings),
                "\n## Every model",
                *table(PackageSettings),
                "\n## Other defaults than RecBole's",
                "\nFor Asar models only.\n\n| key | default | meaning |\n|---|---|---|",
                *recbole,
            ]
        )
        + "\n"
    )


FILES = {
    "properties/model/Asar.yaml": asar_yaml,
    "properties/overall.yaml": overall_yaml,
    "docs/keys.md": keys_md,
}

if __name__ == "__main__":
    for name, make in FILES.items():
        (ROOT / name).write_text(make(), encoding="utf-8")
        print(name, file=sys.stderr)
