"""What the figures are made of: Plotly's plain JSON, with panels laid out by ``layout.grid``.

The page draws them, and stacks the panels on a narrow screen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recbole_asarrec.experiments.records import PROTOCOLS
from recbole_asarrec.experiments.significance import Spread
from recbole_asarrec.report.study import LEARNED, NAMES, Method, Setting

Spec = dict[str, Any]

# Okabe and Ito's colours, which the colour-blind can tell apart; the backbone is grey, AsarRec vermilion
ACCENT, _PLAIN = "#d55e00", "#8a8f98"
COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#9467bd", "#7f6a4f", "#3b3b98")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")
_PANEL = 300  # pixels


@dataclass(frozen=True)
class Figure:
    """One picture, drawn anew for each protocol.

    Attributes:
        name: for anchors, unique in a report.
        title: its heading.
        caption: what to see.
        specs: Plotly's ``data`` and ``layout`` by protocol.
    """

    name: str
    title: str
    caption: str
    specs: dict[str, Spec]


def style(method: Method, methods: Sequence[Method]) -> dict[str, Any]:
    """A method's colour, marker and line; a method with a name of its own has the same in every figure."""
    if method.augmentation == "none":
        return {"color": _PLAIN, "symbol": "circle", "dash": "dash", "width": 2}
    if method.augmentation == LEARNED:
        return {"color": ACCENT, "symbol": "circle", "dash": "solid", "width": 3.5}
    known = list(NAMES)
    others = [one.augmentation for one in methods if one.augmentation not in known]
    place = (
        known.index(method.augmentation)
        if method.augmentation in known
        else others.index(method.augmentation)
    )
    lap = place // len(COLOURS)
    return {
        "color": COLOURS[place % len(COLOURS)],
        "symbol": _SYMBOLS[place % len(_SYMBOLS)],
        "dash": ("solid", "dot", "dashdot")[lap % 3],
        "width": 1.8,
    }


def axis(number: int) -> str:
    """How Plotly ends the names of the axes of a panel, counted from 0: "", "2", "3", …"""
    return "" if number == 0 else str(number + 1)


def layout_of(titles: Sequence[str], columns: int, **axes: Any) -> Spec:
    """Panels with a title each; ``xaxis`` and ``yaxis`` go to all of them."""
    rows = math.ceil(len(titles) / columns)
    layout: Spec = {
        "grid": {"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.16, "ygap": 0.3},
        "height": _PANEL * rows + 90,
        "margin": {"l": 56, "r": 16, "t": 34, "b": 56},
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.26 / rows, "yanchor": "top", "x": 0},
        "annotations": [],
    }
    for number, title in enumerate(titles):
        end = axis(number)
        layout[f"xaxis{end}"] = {"automargin": True, "zeroline": False, **axes.get("xaxis", {})}
        layout[f"yaxis{end}"] = {"automargin": True, "zeroline": False, **axes.get("yaxis", {})}
        layout["annotations"].append(
            {
                "text": f"<b>{title}</b>",
                "xref": f"x{end} domain",
                "yref": f"y{end} domain",
                "x": 0,
                "y": 1.02,
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
    return layout


def escape(text: str) -> str:
    """Plotly reads a little HTML in its texts; a name has none."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def line_of(
    method: Method, methods: Sequence[Method], x: Sequence[Any], ys: Sequence[Spread], number: int
) -> Spec:
    """A method's curve in one panel."""
    look = style(method, methods)
    errors = [one.std or 0 for one in ys]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape(method.label),
        "legendgroup": escape(method.label),
        "showlegend": number == 0,
        "x": list(x),
        "y": [one.mean for one in ys],
        "error_y": {"type": "data", "array": errors, "visible": any(errors), "thickness": 1, "width": 3},
        "line": {"color": look["color"], "dash": look["dash"], "width": look["width"]},
        "marker": {"color": look["color"], "symbol": look["symbol"], "size": 8},
        "xaxis": f"x{axis(number)}",
        "yaxis": f"y{axis(number)}",
    }


def name_of(kind: str, setting: Setting, *more: str) -> str:
    """A figure's name, fit for an anchor."""
    words = "-".join([kind, *setting.group, *more])
    return "".join(sign if sign.isalnum() and sign.isascii() else "-" for sign in words)


def for_protocols(make: Callable[[str], Spec | None]) -> dict[str, Spec]:
    """What ``make(protocol)`` gives for those protocols that have runs."""
    made = {protocol: make(protocol) for protocol in PROTOCOLS}
    return {protocol: spec for protocol, spec in made.items() if spec is not None}
