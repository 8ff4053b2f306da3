"""The report as one HTML page that needs nothing else: Plotly, styles, script and data are inside it.

Names, tokens and configuration values come from outside. They reach the page through :func:`html.escape` or
inside JSON, which the script only ever shows as text.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments.records import PROTOCOLS
from recbole_asarrec.report.contents import MISSING, Contents
from recbole_asarrec.report.formats import MARK
from recbole_asarrec.report.markup import edits, figure_frame, glance, results, time_card
from recbole_asarrec.report.study import Method, Setting
from recbole_asarrec.report.tables import LEGEND
from recbole_asarrec.version import __version__


def _asset(name: str) -> str:
    return files("recbole_asarrec.report").joinpath("assets", name).read_text(encoding="utf-8")


def plotly_js() -> str:
    """Plotly's script, from its Python package.

    Raises:
        UserError: plotly is not installed.
    """
    try:
        package = files("plotly")
    except ModuleNotFoundError as error:
        raise UserError("The report draws its figures with plotly. Run: pip install plotly") from error
    return package.joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")


def embed(data: Any) -> str:
    """JSON that may stand inside a ``<script>`` whatever it says."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _chapter(found: Contents, name: str) -> str:
    made = found.figures[name]
    return "".join(map(figure_frame, made)) if made else f'<p class="missing">{escape(MISSING[name])}</p>'


def _cases(views: list[tuple[Setting, Method]]) -> list[dict[str, Any]]:
    """What the case explorer shows: a method's runs beside each other, one for each level of noise."""
    found: dict[str, list[dict[str, Any]]] = {}
    for setting, method in views:
        seen = method.any_record.views or {}
        name = f"{setting.dataset} · {setting.backbone} · {method.label}"
        told = {"level": setting.level, "cases": seen.get("cases", []), "titles": seen.get("titles", {})}
        if told["cases"]:
            found.setdefault(name, []).append(told)
    return [{"name": name, "runs": runs} for name, runs in found.items()]


_NO_RECIPES = (
    '<p class="missing">The effect of a recipe needs one method under two of them: a grid with '
    "augmentations: [{augmentation: none, recipe: plain}, {augmentation: none, recipe: robust}].</p>"
)


def _machines(found: Contents) -> str:
    distinct = dict.fromkeys(json.dumps(record.machine, sort_keys=True) for record in found.records)
    lines = []
    for text in distinct:
        machine = json.loads(text)
        lines.append(f"<li>{escape(', '.join(f'{key} {value}' for key, value in machine.items()))}</li>")
    return "<ul>" + "".join(lines) + "</ul>"


def _facts(found: Contents) -> str:
    """The report in a few numbers."""
    specs = [record.spec for record in found.records]
    facts = {
        "run": len(specs),
        "dataset": len({spec.dataset for spec in specs}),
        "method": len({(spec.model, spec.augmentation) for spec in specs}),
        "seed": len({spec.seed for spec in specs}),
        "noise level": len({spec.noise_ratio for spec in specs}),
    }
    return "".join(
        f"<div><dt>{name}{'' if value == 1 else 's'}</dt><dd>{value}</dd></div>"
        for name, value in facts.items()
    )


def page(found: Contents) -> str:
    """The whole page."""
    protocols = [name for name in PROTOCOLS if any(table.protocol == name for table in found.tables)]
    switch = "".join(
        f'<label title="{escape(PROTOCOLS[name])}"><input type="radio" name="protocol" value="{name}"'
        f"{' checked' if name == protocols[0] else ''}> {name.replace('_', ' ')}</label>"
        for name in protocols
    )
    cases = _cases(found.views)
    data = {
        "protocols": protocols,
        "rows": found.entries,
        "figures": {one.name: one.specs for chapter in found.figures.values() for one in chapter},
        "cases": cases,
    }
    return Template(_asset("page.html")).substitute(
        generator=f"{MARK} {__version__}",
        version=__version__,
        style=_asset("page.css"),
        plotly=plotly_js().replace("</script", "<\\/script"),
        script=_asset("page.js"),
        data=embed(data),
        protocol=protocols[0],
        switch=switch,
        protocols="".join(
            f"<li><b>{n.replace('_', ' ')}</b>: {escape(PROTOCOLS[n])}</li>" for n in protocols
        ),
        facts=_facts(found),
        glance=glance(found),
        legend=escape(LEGEND),
        tables=results(found.tables),
        recipes=results(found.recipes, sum(len(table.rows) for table in found.tables)) or _NO_RECIPES,
        times="".join(time_card(setting, times) for setting, times in found.times.items() if times),
        edits=edits(found.views) if found.views else "",
        no_cases="hidden" if cases else "",
        explorer="" if cases else "hidden",
        machines=_machines(found),
        **{f"chapter_{name}": _chapter(found, name) for name in MISSING},
    )
