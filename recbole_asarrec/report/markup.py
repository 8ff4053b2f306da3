"""Tables and frames of figures as HTML; every text from outside goes through :func:`html.escape`."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from recbole_asarrec.experiments.significance import METRICS, Comparison, Spread
from recbole_asarrec.report.contents import Contents
from recbole_asarrec.report.formats import head, number, percent, seeds_ahead
from recbole_asarrec.report.plots import Figure
from recbole_asarrec.report.study import LEARNED, Method, Setting
from recbole_asarrec.report.tables import Cell, Gain, Table, Times
from recbole_asarrec.training.monitor import EDIT_KINDS

_OVER = {  # opponents of the first table, and what heads their column
    "backbone": "AsarRec over backbone",
    "baseline": "over the best baseline",
    "random_matrix": "over random matrices",
}


def _heads(names: Iterable[str]) -> str:
    cells = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def _sortable(heads: Iterable[str], rows: Iterable[str], texts: int = 1) -> str:
    """A table whose first ``texts`` columns are words."""
    table = f'<table class="sortable texts{texts}">{_heads(heads)}<tbody>{"".join(rows)}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _value(value: float | None, text: str, attributes: str = "") -> str:
    sortable = "" if value is None else f' data-value="{value!r}"'
    return f"<td{sortable}{attributes}>{text}</td>"


def _spread(one: Spread, digits: int) -> str:
    std = "" if one.std is None else f' <span class="std">± {one.std:.{digits}f}</span>'
    return f"{one.mean:.{digits}f}{std}"


def _tested(one: Comparison | None, whom: str) -> list[str]:
    if one is None:
        return []
    if one.refused:
        return [f"{whom} {one.baseline}: not compared, {one.refused}"]
    low, high = one.interval
    return [
        f"{whom} {one.baseline}: {one.difference:+.4f} (95 % {low:+.4f} to {high:+.4f}), "
        f"t-test p {one.p_t:.2g}, bootstrap p {one.p_bootstrap:.2g}, corrected {one.p:.2g}; "
        f"{one.users} users, ahead in {one.ahead} of {one.seeds} seeds"
    ]


def _cell(cell: Cell, metric: str) -> str:
    place = {1: "best", 2: "second"}.get(cell.place, "")
    hint = _tested(cell.baseline, "against") + _tested(cell.backbone, "against the backbone")
    classes = " ".join(filter(None, [place, "worse" if cell.worse else ""]))
    mean, _, std = number(cell).partition(" ± ")
    text = f'<span class="mean">{mean}</span><span class="marks">{cell.marks}</span>'
    text += f' <span class="std">± {std}</span>' if std else ""
    attributes = f' data-metric="{metric}" class="{classes}" title="{escape(chr(10).join(hint))}"'
    return _value(cell.spread.mean, text, attributes)


def _gain(gain: Gain | None, metric: str) -> str:
    if gain is None:
        return _value(None, "–")
    test = gain.tests[metric]
    text = f'{percent(test.gain)} <span class="marks">{test.stars}</span>'
    text += f' <span class="std">{seeds_ahead(test)}</span>'
    return _value(test.gain, text, f' title="{escape(chr(10).join(_tested(test, "against")))}"')


def _table(table: Table, first: int) -> str:
    """One table; ``first`` is where its rows begin in the leaderboard."""
    rows = []
    for place, row in enumerate(table.rows, first):
        cells = "".join(_cell(row.cells[metric], metric) for metric in METRICS)
        learned = ' class="learned"' if row.method.augmentation == LEARNED else ""
        rows.append(
            f'<tr data-row="{place}"{learned}><th scope="row">{escape(row.method.label)}</th>{cells}'
            f"{_value(row.seeds, str(row.seeds))}"
            '<td><button type="button" class="yaml">YAML</button></td></tr>'
        )
    feet = "".join(
        f"<tr><th scope='row'>{escape(gain.title)}</th>"
        f"{''.join(_gain(gain, metric) for metric in METRICS)}<td></td><td></td></tr>"
        for gain in table.gains
    )
    foot = f"<tfoot>{feet}</tfoot>" if feet else ""
    heads = _heads(["method", *map(head, METRICS), "seeds", "reproduce"])
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    return (
        f'<div class="scroll" data-protocol="{table.protocol}"><table class="sortable texts1">{heads}'
        f"<tbody>{''.join(rows)}</tbody>{foot}</table>"
        f"{f'<ul class=notes>{notes}</ul>' if notes else ''}</div>"
    )


def results(tables: Iterable[Table], first: int = 0) -> str:
    """A card for each setting, with its table by protocol; ``first`` is their place in the leaderboard."""
    parts: dict[Setting, list[str]] = {}
    for table in tables:
        parts.setdefault(table.setting, []).append(_table(table, first))
        first += len(table.rows)
    return "".join(
        f'<article class="card"><h3>{escape(setting.title)}</h3>{"".join(made)}</article>'
        for setting, made in parts.items()
    )


def glance(found: Contents, metric: str = "ndcg@10") -> str:
    """A line for each table: who is best, and how AsarRec stands."""
    rows = []
    for table in found.tables:
        best = min(table.rows, key=lambda row: row.cells[metric].place)
        gains = {gain.opponent: gain for gain in table.gains}
        over_each = "".join(_gain(gains.get(name), metric) for name in _OVER)
        rows.append(
            f'<tr data-protocol="{table.protocol}"><th scope="row">{escape(table.setting.dataset)}</th>'
            f"<td>{escape(table.setting.backbone)}</td><td>{escape(table.setting.recipe)}</td>"
            f"<td>{escape(table.setting.level)}</td>"
            f"<td>{escape(best.method.label)}</td>"
            f"{_value(best.cells[metric].spread.mean, _spread(best.cells[metric].spread, 4))}"
            f"{over_each}</tr>"
        )
    heads = [
        "dataset",
        "backbone",
        "recipe",
        "noise",
        "best",
        head(metric),
        *_OVER.values(),
    ]
    return _sortable(heads, rows, texts=5)


def time_card(setting: Setting, times: list[Times]) -> str:
    """Time and memory of one setting."""
    rows = [
        f'<tr><th scope="row">{escape(one.method.label)}</th>'
        f"{_value(one.epoch.mean, _spread(one.epoch, 2))}"
        f"{_value(one.ratio, '–' if one.ratio is None else f'{one.ratio:.2f}')}"
        f"{_value(one.epochs.mean, _spread(one.epochs, 1))}"
        f"{_value(one.hours.mean, _spread(one.hours, 3))}"
        f"{_value(one.peak_gib, f'{one.peak_gib:.2f}')}</tr>"
        for one in times
    ]
    heads = ["method", "seconds an epoch", "÷ backbone", "epochs", "hours", "peak GiB"]
    return f'<article class="card"><h3>{escape(setting.title)}</h3>{_sortable(heads, rows)}</article>'


def _shares(rates: dict[str, float]) -> str:
    """A cell for each kind of edit; older records do not have all."""
    return "".join(
        _value(rates.get(kind), f"{rates[kind]:.1%}" if kind in rates else "–") for kind in EDIT_KINDS
    )


def _lift(seen: dict[str, Any]) -> str:
    """A cell: how much more often than by chance what was dropped is noise."""
    lift = (seen.get("noise") or {}).get("lift")
    return _value(lift, "–" if lift is None else f"{lift:.2f}")


def edits(views: list[tuple[Setting, Method]]) -> str:
    """What each augmenter does to a history, on average."""
    rows = []
    for setting, method in views:
        seen = method.any_record.views or {}
        named = f'<tr><th scope="row">{escape(setting.title)}</th><td>{escape(method.label)}</td>'
        for view, (rates, ndcg) in enumerate(zip(seen["rates"], seen["ndcg"]), 1):
            shares = _shares(rates)
            rows.append(
                f"{named}<td>view {view}</td>{shares}{_value(ndcg, f'{ndcg:.3f}')}"
                f"{_value(seen['floor'], format(seen['floor'], '.3f'))}{_lift(seen)}</tr>"
            )
        if denoising := seen.get("denoising"):
            gone = denoising["dropped"]
            rates = {**dict.fromkeys(EDIT_KINDS, 0.0), "kept": 1 - gone, "dropped": gone}
            shares = _shares(rates)
            rows.append(
                f"{named}<td>training data</td>{shares}{_value(None, '–') * 2}{_lift(denoising)}</tr>"
            )
    heads = ["setting", "method", "what", *EDIT_KINDS, "NDCG", "NDCG*", "noise lift"]
    return f'<div class="card">{_sortable(heads, rows, texts=2)}</div>'


def figure_frame(figure: Figure) -> str:
    """A heading, a caption, and the place the script draws into."""
    return (
        f'<figure class="card" id="{figure.name}"><figcaption><h3>{escape(figure.title)}</h3>'
        f"<p>{escape(figure.caption)}</p></figcaption>"
        f'<div class="plot" data-figure="{figure.name}"></div></figure>'
    )
