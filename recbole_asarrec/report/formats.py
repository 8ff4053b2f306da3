"""Tables as Markdown, LaTeX and a leaderboard in JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from recbole_asarrec.experiments.records import PROTOCOLS
from recbole_asarrec.experiments.significance import METRICS, Comparison
from recbole_asarrec.report.tables import LEGEND, Cell, Gain, Row, Table
from recbole_asarrec.version import __version__

MARK = "recbole-asarrec report"  # stands in every file made here, so that it may be made again
_HEADS = {"hit@10": "HR@10", "hit@20": "HR@20", "ndcg@10": "NDCG@10", "ndcg@20": "NDCG@20"}


def head(metric: str) -> str:
    """A metric as the literature writes it."""
    return _HEADS.get(metric, metric)


def number(cell: Cell) -> str:
    """``0.0512 ± 0.0003``, without the spread for one seed."""
    std = "" if cell.spread.std is None else f" ± {cell.spread.std:.4f}"
    return f"{cell.spread.mean:.4f}{std}"


def percent(share: float | None) -> str:
    """``+6.40 %``, or a dash."""
    return "–" if share is None else f"{share:+.2%}".replace("%", " %").replace("-", "−")


def seeds_ahead(test: Comparison) -> str:
    """``2/3``: in how many of the common seeds the method is ahead; nothing for one seed."""
    return f"{test.ahead}/{test.seeds}" if test.seeds > 1 else ""


def _told(gain: Gain, metric: str) -> str:
    test = gain.tests[metric]
    return " ".join(filter(None, [percent(test.gain), test.stars, seeds_ahead(test)]))


def _markdown_cell(cell: Cell) -> str:
    text = number(cell)
    text = f"**{text}**" if cell.place == 1 else f"<u>{text}</u>" if cell.place == 2 else text
    text = f"<i>{text}</i>" if cell.worse else text
    return text + cell.marks.replace("*", "\\*")


def _plain(text: str) -> str:
    """Text that Markdown leaves alone."""
    for sign in "\\`*_{}[]<>#|":
        text = text.replace(sign, "\\" + sign if sign not in "<>" else {"<": "&lt;", ">": "&gt;"}[sign])
    return text.replace("\n", " ")


def markdown(tables: Sequence[Table]) -> str:
    """All tables, a heading each."""
    lines = [f"<!-- {MARK} {__version__} -->", "", "# Results", "", LEGEND.replace("*", "\\*"), ""]
    lines[4] = lines[4].replace("grey: below", "italic: below")
    for table in tables:
        lines += [f"## {_plain(table.setting.title)}", "", f"Protocol: {PROTOCOLS[table.protocol]}.", ""]
        lines += [
            "| method | seeds | " + " | ".join(map(head, METRICS)) + " |",
            "|---|---|" + "---|" * len(METRICS),
        ]
        for row in table.rows:
            cells = " | ".join(_markdown_cell(row.cells[metric]) for metric in METRICS)
            lines.append(f"| {_plain(row.method.label)} | {row.seeds} | {cells} |")
        for gain in table.gains:
            cells = " | ".join(_told(gain, metric) for metric in METRICS)
            lines.append(f"| {_plain(gain.title)} | | " + cells.replace("*", "\\*") + " |")
        lines += ["", *(f"- {_plain(note)}" for note in table.notes), *([""] if table.notes else [])]
    return "\n".join(lines).rstrip() + "\n"


_TEX = {
    "\\": r"\textbackslash{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "λ": r"$\lambda$",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "†": r"$\dagger$",
    "·": r"$\cdot$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(sign, sign) for sign in text)


def _tex_cell(cell: Cell) -> str:
    text = _tex(number(cell) + cell.marks)
    wrap = {1: r"\textbf{%s}", 2: r"\underline{%s}"}.get(cell.place, "%s")
    return (r"\textcolor{gray}{%s}" if cell.worse else "%s") % (wrap % text)


def latex(tables: Sequence[Table]) -> str:
    """All tables, for a document that loads booktabs and xcolor."""
    lines = [f"% {MARK} {__version__}", r"% \usepackage{booktabs,xcolor}"]
    for table in tables:
        caption = (
            f"{table.setting.title}, {PROTOCOLS[table.protocol]}. {LEGEND} {' '.join(table.notes)}".strip()
        )
        lines += ["", r"\begin{table}[t]", r"\centering", rf"\caption{{{_tex(caption)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'c' * len(METRICS)}}}", r"\toprule"]
        lines += [" & ".join(["Method", *map(head, METRICS)]) + r" \\", r"\midrule"]
        for row in table.rows:
            cells = [_tex_cell(row.cells[metric]) for metric in METRICS]
            lines.append(" & ".join([_tex(row.method.label), *cells]) + r" \\")
        lines += [r"\midrule"] if table.gains else []
        for gain in table.gains:
            gains = [_tex(_told(gain, metric)) for metric in METRICS]
            lines.append(" & ".join([_tex(gain.title), *gains]) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _comparison(one: Comparison | None) -> dict[str, Any] | None:
    return None if one is None else {**asdict(one), "gain": one.gain, "stars": one.stars}


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        **cell.spread._asdict(),
        "place": cell.place,
        "gain": cell.gain,
        "marks": cell.marks,
        "against_runner_up": _comparison(cell.baseline),
        "against_backbone": _comparison(cell.backbone),
    }


def _gain(gain: Gain) -> dict[str, Any]:
    metrics = {metric: _comparison(test) for metric, test in gain.tests.items()}
    return {"opponent": gain.opponent, "over": gain.over, "metrics": metrics}


def _entry(table: Table, row: Row) -> dict[str, Any]:
    method = row.method
    return {
        "dataset": table.setting.dataset,
        "backbone": table.setting.backbone,
        "recipe": method.any_record.spec.recipe,
        "noise_ratio": table.setting.noise_ratio,
        "noise": table.setting.noise,
        "protocol": table.protocol,
        "method": method.label,
        "model": method.model,
        "augmentation": method.augmentation,
        "seeds": sorted(seed for seed, record in method.records.items() if table.protocol in record.ranks),
        "runs": [record.spec.run for _, record in sorted(method.records.items())],
        "yaml": method.yaml(),
        "metrics": {metric: _cell(cell) for metric, cell in row.cells.items()},
        "gains": [_gain(gain) for gain in table.gains] if row is table.champion else [],
    }


def leaderboard(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Every row of every table, as plain data."""
    return [_entry(table, row) for table in tables for row in table.rows]


def leaderboard_json(entries: Sequence[dict[str, Any]]) -> str:
    """The leaderboard as a file."""
    return (
        json.dumps({"made_by": f"{MARK} {__version__}", "rows": entries}, indent=1, ensure_ascii=False) + "\n"
    )


_FIXED = [
    "dataset",
    "backbone",
    "noise_ratio",
    "noise",
    "protocol",
    "method",
    "model",
    "augmentation",
    "seeds",
]
_MEASURED = ["mean", "std", "gain", "marks", "p_runner_up", "p_backbone"]
CSV_HEAD = ",".join([*_FIXED, *(f"{metric} {name}" for metric in METRICS for name in _MEASURED)])


def leaderboard_csv(entries: Sequence[dict[str, Any]]) -> str:
    """The leaderboard as a spreadsheet reads it; seeds are separated by spaces."""
    text = io.StringIO()
    text.write(CSV_HEAD + "\n")
    lines = csv.writer(text, lineterminator="\n")
    for entry in entries:
        fixed = [entry[name] for name in _FIXED[:-1]] + [" ".join(map(str, entry["seeds"]))]
        measured = []
        for metric in METRICS:
            cell = entry["metrics"][metric]
            tests = [cell[name] for name in ("against_runner_up", "against_backbone")]
            measured += [cell["mean"], cell["std"], cell["gain"], cell["marks"]]
            measured += [test["p"] if test and not test["refused"] else None for test in tests]
        lines.writerow([_formula_free(value) for value in fixed] + measured)
    return text.getvalue()


def _formula_free(value: Any) -> Any:
    """A spreadsheet takes a text that begins with one of these for a formula."""
    return "'" + value if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") and value else value
