"""Draw docs/operations.svg, the five operations as matrices: ``python docs/operations.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).with_suffix(".svg")
ITEMS = ("v₁", "v₂", "v₃", "v₄", "v₅", "c")  # a history of five items and one candidate
NEW = len(ITEMS) - 1
# for each position the item placed there, None for none; the last position is outside the view but for insert
OPERATIONS: dict[str, tuple[int | None, ...]] = {
    "Crop": (None, 1, 2, 3, None, NEW),
    "Mask": (0, 1, None, 3, 4, NEW),
    "Reorder": (0, 1, 3, 2, 4, NEW),
    "Insert": (0, 1, NEW, 2, 3, 4),
    "Substitute": (0, 1, NEW, 3, 4, None),
}
CELL, TILE, GAP, LEFT, TOP = 18, 22, 46, 52, 64
STYLE = """
  .page { fill: #ffffff } text { fill: #24292f; font: 12px sans-serif; text-anchor: middle }
  .head { font-weight: 600; font-size: 14px } .faint { fill: #6e7781; font-size: 11px }
  .cell { fill: #f6f8fa; stroke: #d0d7de } .outside { fill: none; stroke: #d0d7de; stroke-dasharray: 2 2 }
  .old { fill: #0969da } .new { fill: #bc4c00 } .unused { fill: #afb8c1 } .on { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #e6edf3 } .faint { fill: #8b949e }
    .cell { fill: #161b22; stroke: #30363d } .outside { stroke: #30363d }
    .old { fill: #1f6feb } .new { fill: #bd561d } .unused { fill: #484f58 } .on { fill: #ffffff }
  }"""


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Centred words."""
    return f'<text x="{x:g}" y="{y:g}"' + (f' class="{kind}"' if kind else "") + f">{words}</text>"


def square(x: float, y: float, size: float, kind: str) -> str:
    """A square with its upper left corner at ``(x, y)``."""
    return f'<rect x="{x:g}" y="{y:g}" width="{size}" height="{size}" rx="2" class="{kind}"/>'


def matrix(source: tuple[int | None, ...], kept: int, left: float, first: bool) -> Iterator[str]:
    """Rows are items, columns are positions; those from ``kept`` on are outside the view."""
    for column, item in enumerate(source):
        x = left + column * CELL
        yield text(x + CELL / 2, TOP - 6, str(column + 1), "faint")
        for row in range(len(source)):
            y = TOP + row * CELL
            yield square(x + 0.5, y + 0.5, CELL - 1, "cell" if column < kept else "outside")
            if row == item:
                kind = "unused" if column >= kept else "new" if item == NEW else "old"
                yield square(x + 4, y + 4, CELL - 8, kind)
    if first:
        for row, name in enumerate(ITEMS):
            yield text(left - 14, TOP + row * CELL + 13, name)


def view(source: tuple[int | None, ...], kept: int, middle: float) -> Iterator[str]:
    """The items of the kept positions, gaps closed."""
    items = [item for item in source[:kept] if item is not None]
    y = TOP + len(source) * CELL + 30
    for place, item in enumerate(items):
        x = middle + (place - len(items) / 2) * TILE
        yield square(x + 1, y, TILE - 2, "new" if item == NEW else "old")
        yield text(x + TILE / 2, y + 14, ITEMS[item], "on")


def draw() -> str:
    """The picture."""
    size = len(ITEMS) * CELL
    width = LEFT + len(OPERATIONS) * (size + GAP)
    height = TOP + size + 64
    parts = []
    for number, (name, source) in enumerate(OPERATIONS.items()):
        left = LEFT + number * (size + GAP)
        kept = len(source) if name == "Insert" else NEW
        parts.append(text(left + size / 2, 28, name, "head"))
        parts += matrix(source, kept, left, number == 0)
        parts.append(text(left + size / 2, TOP + size + 18, "↓", "faint"))
        parts += view(source, kept, left + size / 2)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="Five operations as matrices and the views they make">',
            f"<style>{STYLE}\n</style>",
            f'<rect width="{width}" height="{height}" rx="6" class="page"/>',
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
