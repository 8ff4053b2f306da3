"""Figures of what happens while a model trains: learning curves, and what the augmenter does to histories."""

from __future__ import annotations

from collections.abc import Sequence

from recbole_asarrec.experiments.records import PROTOCOLS
from recbole_asarrec.experiments.significance import spread
from recbole_asarrec.report.figures import Study
from recbole_asarrec.report.formats import head
from recbole_asarrec.report.plots import Figure, Spec, axis, layout_of, line_of, name_of
from recbole_asarrec.report.study import LEARNED, Method, Setting, in_curves, sweep_centers

_TICKS = (0.0, 0.01, 0.05, 0.2, 0.5, 1.0)
_SCALE = [[0, "#fbf7ef"], [0.25, "#f6d8a8"], [0.5, "#ee9b5a"], [0.75, "#c4501f"], [1, "#5c1a0b"]]


def learning_curves(setting: Setting, methods: Sequence[Method], metric: str = "ndcg@10") -> Figure | None:
    """Validation by epoch, the mean over seeds, as far as all of them trained."""
    chosen = in_curves(methods)
    data = []
    for method in chosen:
        by_epoch: dict[int, list[float]] = {}
        for record in method.records.values():
            for entry in record.curve:
                if (entry.get("valid") or {}).get(metric) is not None:
                    by_epoch.setdefault(entry["epoch"] + 1, []).append(entry["valid"][metric])
        if by_epoch:
            epochs = [
                epoch for epoch, values in sorted(by_epoch.items()) if len(values) == len(method.records)
            ]
            line = line_of(method, chosen, epochs, [spread(by_epoch[epoch]) for epoch in epochs], 0)
            data.append({**line, "mode": "lines", "error_y": {"visible": False}})
    if not data:
        return None
    layout = layout_of(
        [f"{head(metric)} on validation"], 1, xaxis={"title": {"text": "epoch", "standoff": 6}}
    )
    spec = {"data": data, "layout": layout}
    return Figure(
        name_of("learning", setting, str(setting.noise_ratio), setting.noise),
        setting.title,
        "By RecBole's protocol; the mean over seeds, as far as all of them trained.",
        {protocol: spec for protocol in PROTOCOLS},
    )


def matrices(study: Study, family: dict[float, Setting]) -> Figure | None:
    """AsarRec's averaged transformation matrices of users of one length, clean beside noisy."""
    panels = []
    for ratio in sorted(family)[:: max(len(family) - 1, 1)]:  # the cleanest and the noisiest
        setting = family[ratio]
        learned = [method for method in sweep_centers(study[setting]) if method.augmentation == LEARNED]
        views = learned[0].any_record.views if learned else None
        if views and views.get("matrix"):
            panels.append((setting, views["matrix"]))
    if not panels:
        return None
    data: list[Spec] = []
    titles = []
    for view in (0, 1):
        for setting, matrix in panels:
            values = matrix["views"][view]
            n = matrix["length"]
            rows = [f"{item + 1}" if item < n else f"new {item - n + 1}" for item in range(len(values))]
            titles.append(f"view {view + 1}, {setting.level}")
            data.append(
                {
                    "type": "heatmap",
                    "x": [str(position + 1) for position in range(n)],
                    "y": rows,
                    "z": [
                        [value**0.5 for value in row] for row in values
                    ],  # the diagonal would hide the rest
                    "customdata": values,
                    "hovertemplate": "item %{y} → position %{x}: %{customdata:.1%}<extra></extra>",
                    "zmin": 0,
                    "zmax": 1,
                    "colorscale": _SCALE,
                    "showscale": not data,
                    "colorbar": {
                        "thickness": 10,
                        "lenmode": "pixels",
                        "len": 260,
                        "y": 1,
                        "yanchor": "top",
                        "tickvals": [tick**0.5 for tick in _TICKS],
                        "ticktext": [f"{tick:.0%}" for tick in _TICKS],
                    },
                    "xaxis": f"x{axis(len(data))}",
                    "yaxis": f"y{axis(len(data))}",
                }
            )
    layout = layout_of(titles, len(panels), xaxis={"type": "category"}, yaxis={"type": "category"})
    for number in range(len(data)):
        layout[f"xaxis{axis(number)}"] |= {
            "title": {"text": "position in the view", "standoff": 6},
            "showgrid": False,
        }
        layout[f"yaxis{axis(number)}"] |= {"autorange": "reversed", "showgrid": False}
    layout["height"] = 400 * 2 + 60
    some = panels[0][0]
    counts = "; ".join(
        f"{one.level}, {seen['users']} users of {seen['length']} items" for one, seen in panels
    )
    return Figure(
        name_of("matrices", some, panels[-1][0].noise),
        panels[-1][0].family,
        f"AsarRec on average ({counts}): how often each item of the history (1 is the oldest) or new item "
        "stands at each position of the view. The colour is the square root of the share, since the diagonal "
        "would hide everything else.",
        {protocol: {"data": data, "layout": layout} for protocol in PROTOCOLS},
    )
