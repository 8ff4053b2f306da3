"""Write docs/patches.md, the RecBole functions that the plugin replaces: ``python docs/patches.py``."""

from __future__ import annotations

import inspect
from pathlib import Path

import recbole

import recbole_asarrec  # noqa: F401  (installs the patches)
from recbole_asarrec.compat.patching import RECBOLE, hooks, originals

HERE = Path(__file__).parent


def patches_md() -> str:
    """The page."""
    functions: dict[str, list[str]] = {}  # by source line: a function may be imported under several names
    for target in hooks:
        original = inspect.unwrap(originals[target])
        file = Path(inspect.getsourcefile(original) or "").relative_to(Path(recbole.__file__).parent)
        functions.setdefault(f"{file.as_posix()}:{inspect.getsourcelines(original)[1]}", []).append(target)
    rows = []
    for line, targets in sorted(functions.items()):
        known = hooks[targets[0]]
        name = targets[0].partition(":")[2]
        how = "source" if known.lines else "wrapper"
        rows.append(f"| `{name}` | `{line}` | {how} | {known.reason} |")
    source = sum(bool(hooks[targets[0]].lines) for targets in functions.values())
    return "\n".join(
        [
            "# What is patched in RecBole",
            "",
            "<!-- Written by docs/patches.py. -->",
            "",
            f"Importing the plugin replaces {len(functions)} functions of RecBole {RECBOLE} (under "
            f"{len(hooks)} names), {source} of them by changed source lines. All of it is in "
            "`recbole_asarrec/compat`; every function is checked before any is replaced, so another RecBole "
            "is refused by name. What only Asar models need is done by subclasses (dataset, loaders, "
            "trainer).",
            "",
            "| function | line | by | why |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    (HERE / "patches.md").write_text(patches_md(), encoding="utf-8")
