"""The paper's figures of results: noise curves, fixed augmentations against the backbone, sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recbole_asarrec.experiments.significance import METRICS, Spread, spread
from recbole_asarrec.report.formats import head
from recbole_asarrec.report.plots import (
    ACCENT,
    COLOURS,
    Figure,
    Spec,
    axis,
    escape,
    for_protocols,
    layout_of,
    line_of,
    name_of,
)
from recbole_asarrec.report.study import (
    LEARNED,
    SWEPT,
    Method,
    Setting,
    backbone_row,
    in_curves,
    is_basic,
    sweep,
    sweep_centers,
)

Study = Mapping[Setting, Sequence[Method]]
_PAPERS_NOISE = 0.2  # what the paper calls noisy


def families(study: Study) -> list[dict[float, Setting]]:
    """Settings that differ by the share of noise alone, by that share; clean data belongs to each kind."""
    found: list[dict[float, Setting]] = []
    for group in sorted({setting.group for setting in study}):
        alike = [setting for setting in study if setting.group == group]
        clean = {setting.noise_ratio: setting for setting in alike if not setting.noise_ratio}
        for noise in sorted({setting.noise for setting in alike if setting.noise_ratio}) or [""]:
            noisy = {s.noise_ratio: s for s in alike if s.noise_ratio and s.noise == noise}
            found.append({**clean, **noisy})
    return found


def noise_curves(
    study: Study, family: dict[float, Setting], metrics: Sequence[str] = METRICS
) -> Figure | None:
    """Metrics against the share of noise, a panel each."""
    if len(family) < 2:
        return None
    levels = {ratio: in_curves(study[setting]) for ratio, setting in sorted(family.items())}
    by_label = {method.label: method for methods in levels.values() for method in methods}
    methods = list(by_label.values())

    def make(protocol: str) -> Spec | None:
        data = []
        for number, metric in enumerate(metrics):
            for method in methods:
                there = {
                    ratio: outcome.spread(metric)
                    for ratio, alike in levels.items()
                    for one in alike
                    if one.label == method.label and (outcome := one.outcome(protocol)).ranks
                }
                if there:
                    data.append(line_of(method, methods, list(there), list(there.values()), number))
        axes = {"xaxis": {"title": {"text": "share of noise", "standoff": 6}, "tickformat": ".0%"}}
        layout = layout_of([head(metric) for metric in metrics], 2, **axes)
        return {"data": data, "layout": layout} if data else None

    some = next(reversed(family.values()))
    return Figure(
        name_of("noise", some, some.noise),
        some.family,
        "Each metric against the share of the training items that are noise; bars are one standard deviation "
        "over seeds. Variants are in the tables, pairs of operations in the next figure.",
        for_protocols(make),
    )


def relative(method: Method, base: Method, protocol: str, metric: str) -> Spread | None:
    """The change from ``base``, seed by seed, as a share; nothing without a common seed."""
    own, plain = method.outcome(protocol), base.outcome(protocol)
    if not own.ranks or not plain.ranks:
        return None
    values = dict(zip(sorted(own.ranks), own.spread(metric).values))
    bases = dict(zip(sorted(plain.ranks), plain.spread(metric).values))
    changes = [values[seed] / bases[seed] - 1 for seed in sorted(values) if bases.get(seed)]
    return spread(changes) if changes else None


def motivation(study: Study, family: dict[float, Setting], metric: str = "ndcg@10") -> Figure | None:
    """Single and paired operations, clean and noisy, relative to the backbone."""
    noisy = min((ratio for ratio in family if ratio), key=lambda r: abs(r - _PAPERS_NOISE), default=None)
    shown = [family[ratio] for ratio in (0.0, noisy) if ratio is not None and ratio in family]
    panels = [
        setting for setting in shown if any(map(is_basic, study[setting])) and backbone_row(study[setting])
    ]
    if not panels:
        return None

    def make(protocol: str) -> Spec | None:
        data = []
        most = 0
        for number, setting in enumerate(panels):
            methods = sweep_centers(study[setting])
            base = backbone_row(methods)
            assert base is not None  # panels have one
            bars = [
                (method, change)
                for method in reversed(methods)
                if (is_basic(method) or method.augmentation == LEARNED)
                and (change := relative(method, base, protocol, metric)) is not None
            ]
            most = max(most, len(bars))
            colours = [
                ACCENT if method.augmentation == LEARNED else "#0072b2" if change.mean > 0 else "#9aa0a8"
                for method, change in bars
            ]
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "showlegend": False,
                    "y": [escape(method.label) for method, _ in bars],
                    "x": [change.mean for _, change in bars],
                    "error_x": {
                        "type": "data",
                        "array": [change.std or 0 for _, change in bars],
                        "thickness": 1,
                        "width": 3,
                    },
                    "marker": {"color": colours},
                    "hovertemplate": "%{y}: %{x:+.2%}<extra></extra>",
                    "xaxis": f"x{axis(number)}",
                    "yaxis": f"y{axis(number)}",
                }
            )
        if not most:
            return None
        axes = {"xaxis": {"tickformat": "+.0%", "tickangle": 0, "zeroline": True, "zerolinewidth": 2}}
        layout = layout_of([setting.level for setting in panels], len(panels), **axes)
        layout["height"] = 150 + 28 * most
        layout["grid"]["xgap"] = 0.34
        return {"data": data, "layout": layout}

    some = panels[0]
    return Figure(
        name_of("motivation", some, panels[-1].noise),
        panels[-1].family,
        f"{head(metric)} relative to the backbone, seed by seed; grey bars fall below it.",
        for_protocols(make),
    )


def sweeps(study: Study, family: dict[float, Setting], metric: str = "ndcg@10") -> Figure | None:
    """AsarRec against k, λ_div and λ_NDCG; at 0 the part is gone."""
    arms = {
        key: {setting: arm for setting in family.values() if (arm := sweep(study[setting], key))}
        for key in SWEPT
    }
    shown = [key for key in SWEPT if arms[key]]
    if not shown:
        return None
    levels = sorted({setting for key in shown for setting in arms[key]})

    def make(protocol: str) -> Spec | None:
        data: list[Spec] = []
        for number, key in enumerate(shown):
            for setting, arm in arms[key].items():
                there = [
                    (v, outcome.spread(metric)) for v, one in arm if (outcome := one.outcome(protocol)).ranks
                ]
                if not there:
                    continue
                colour = (ACCENT, *COLOURS)[levels.index(setting) % (1 + len(COLOURS))]
                data.append(
                    {
                        "type": "scatter",
                        "mode": "lines+markers",
                        "name": setting.level,
                        "legendgroup": setting.level,
                        "showlegend": not any(one["name"] == setting.level for one in data),
                        "x": [f"{value:g}" for value, _ in there],
                        "y": [one.mean for _, one in there],
                        "error_y": {
                            "type": "data",
                            "array": [one.std or 0 for _, one in there],
                            "thickness": 1,
                        },
                        "line": {"color": colour},
                        "marker": {
                            "size": [12 if value == 0 else 8 for value, _ in there],
                            "symbol": ["x" if value == 0 else "circle" for value, _ in there],
                            "color": colour,
                        },
                        "xaxis": f"x{axis(number)}",
                        "yaxis": f"y{axis(number)}",
                    }
                )
        titles = [f"{SWEPT[key]} ({key})" for key in shown]
        layout = layout_of(titles, len(shown), xaxis={"type": "category"})
        for number, key in enumerate(shown):
            order = sorted({value for arm in arms[key].values() for value, _ in arm})
            layout[f"xaxis{axis(number)}"] |= {
                "categoryorder": "array",
                "categoryarray": [f"{value:g}" for value in order],
            }
        layout["yaxis"]["title"] = {"text": head(metric)}
        return {"data": data, "layout": layout} if data else None

    return Figure(
        name_of("sweeps", levels[0], levels[-1].noise),
        levels[-1].family,
        f"{head(metric)} of AsarRec as one key changes and the others stay; a cross marks 0, where that part "
        "of the method is gone.",
        for_protocols(make),
    )
