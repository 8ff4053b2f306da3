"""Tables of docs/results: methods, recipes and backbones by RecBole's ranking metrics, and what they take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from recbole_asarrec.compat import read_properties
from recbole_asarrec.experiments.records import PROTOCOLS, Record
from recbole_asarrec.report.formats import number
from recbole_asarrec.report.study import Method, Setting, across_recipes, sweep_centers
from recbole_asarrec.report.tables import Row, Table, make_label_table, make_table, time_table

Study = Mapping[Setting, Sequence[Method]]
HISTORY = {"all_items": "kept", "unseen_items": "removed"}
CUTOFFS = (10, 20)
KINDS = {"recall": "Recall", "mrr": "MRR", "ndcg": "NDCG", "hit": "Hit", "precision": "Precision"}
COLUMNS = [f"{kind}@{k}" for kind in KINDS for k in CUTOFFS]
# of one target recall is hit and precision hit / k: the same differences between users, tested once
TESTED = [f"{kind}@{k}" for kind in ("mrr", "ndcg", "hit") for k in CUTOFFS]
LEGEND = (
    "Mean ± standard deviation over seeds, from the recorded rank of every user's test item. Bold: best\n"
    "of a table and protocol. `**` p < 0.05, `*` p < 0.1: the best is better than the runner-up. `†`\n"
    "p < 0.05: better than the backbone, or in a table of recipes than the plain recipe. A paired two-sided\n"
    "t-test over users and a bootstrap of users must both say so, Holm-corrected over MRR, NDCG and Hit of\n"
    "a table and protocol; fewer than three common seeds get no mark."
)
# notes of a table that the seeds' column and the legend make needless
_SAID = ("The methods have different numbers of seeds", "A comparison on fewer than")


def rows_of(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first line is its head."""
    first, *others = ("| " + " | ".join(cells) + " |" for cells in lines)
    return "\n".join([first, "|" + "---|" * len(lines[0]), *others])


def both_protocols(tables: Sequence[Table], what: str) -> str:
    """One Markdown table of a setting, the rows of one protocol below those of the other, and its notes.

    Args:
        tables: the setting's tables, one a protocol.
        what: the head of the first column.
    """
    names = [f"{KINDS[kind]}@{k}" for kind, _, k in (column.partition("@") for column in COLUMNS)]
    lines = [[what, "history", "seeds", *names]]
    for table in tables:
        for row in table.rows:
            cells = [_cell(row, column, table) for column in COLUMNS]
            lines.append([row.method.label, HISTORY[table.protocol], str(row.seeds), *cells])
    every = dict.fromkeys(note for table in tables for note in table.notes)
    notes = [note for note in every if not note.startswith(_SAID)]
    backbones = [row.method for row in tables[0].rows if row.method.augmentation == "none"]
    if what == "method" and len(backbones) > 1:
        notes.append(f"`†` compares with {min(backbones, key=lambda one: one.stock).label}.")
    notes += _origins([record for row in tables[0].rows for record in row.method.records.values()])
    return "\n\n".join([rows_of(lines), *([" ".join(notes)] if notes else [])])


def tested_as(column: str) -> str:
    """The metric whose tests hold for a column."""
    kind, _, k = column.partition("@")
    return f"hit@{k}" if kind in ("recall", "precision") else column


def _cell(row: Row, column: str, table: Table) -> str:
    """Recall and precision have the place and the marks of the hit that they are a multiple of."""
    cell = row.cells[tested_as(column)]
    text = number(replace(cell, spread=row.method.outcome(table.protocol).spread(column))).replace("0.", ".")
    best = f"**{text}**" if cell.place == 1 and len(table.rows) > 1 else text
    return (best + " " + cell.marks.replace("*", "\\*")).rstrip()


def _origins(records: Sequence[Record]) -> Iterator[str]:
    """Whether runs of one table are of several machines or commits."""
    commits = sorted({str(record.machine.get("commit")) for record in records})
    devices = {device(record) for record in records}
    if len(commits) > 1 or len(devices) > 1:
        machines = "one machine" if len(devices) == 1 else f"{len(devices)} machines or set-ups"
        yield f"Runs of {len(commits)} commit{'s' * (len(commits) > 1)} ({', '.join(commits)}) on {machines}."


def methods_table(setting: Setting, methods: Sequence[Method]) -> str:
    """Methods at equal recipe; empty where no run was tested.

    Of several variants of the backbone the one with most seeds is what the others are tested against.
    """

    def place(one: Method) -> tuple[bool, bool, int]:
        return (True, False, 0) if one.augmentation != "none" else (False, one.stock, -len(one.records))

    ordered = sorted(methods, key=place)  # all others stay in the report's order
    made = [make_table(setting, ordered, protocol, TESTED) for protocol in PROTOCOLS]
    found = [table for table in made if table]
    return both_protocols(found, "method") if found else ""


def labelled_table(setting: Setting, by_label: Mapping[str, Method], what: str, base: str | None) -> str:
    """Runs under other labels than their methods'; empty where fewer than two were tested."""
    made = [make_label_table(setting, by_label, protocol, base, TESTED) for protocol in PROTOCOLS]
    found = [table for table in made if table]
    return both_protocols(found, what) if found else ""


def sweeps_table(setting: Setting, methods: Sequence[Method]) -> str:
    """The variants that the table of methods leaves out, below the ones that stand there for them."""
    centres = sweep_centers(methods)
    hidden = [one for one in methods if not any(one is centre for centre in centres)]
    if not hidden:
        return ""
    swept = {one.augmentation for one in hidden}
    shown = {one.label: one for one in [*(one for one in centres if one.augmentation in swept), *hidden]}
    return labelled_table(setting, shown, "variant", None)


def recipe_sections(grouped: Study) -> Iterator[tuple[str, str]]:
    """Title and table of every method that was run by several recipes with all other keys equal."""
    for setting, by_recipe in across_recipes(grouped).items():
        if table := labelled_table(setting, by_recipe, "recipe", "plain"):
            label = next(iter(by_recipe.values())).label
            name = label if label == setting.backbone else f"{label} on {setting.backbone}"
            yield f"{name}, {setting.level}", table


def backbone_sections(grouped: Study) -> Iterator[tuple[str, str]]:
    """Title and table of every recipe and augmentation that was run with several backbones.

    Everything but the keys that are the backbone's own, as its dropout, is equal. Of several variants of a
    backbone the one with most seeds stands for it.
    """
    own = {key for space in read_properties("search.yaml")["backbones"].values() for key in space}
    found: dict[tuple[Setting, str, str], dict[str, Method]] = {}
    for setting, methods in grouped.items():
        for method in sweep_centers(methods):
            keys = {key: value for key, value in method.keys.items() if key not in own}
            same = (replace(setting, backbone=""), method.augmentation, json.dumps(keys, sort_keys=True))
            here = found.setdefault(same, {}) if not method.stock else {}
            best = here.setdefault(setting.backbone, method)
            if len(method.records) > len(best.records):
                here[setting.backbone] = method
    for (setting, augmentation, _), by_backbone in found.items():
        if len(by_backbone) > 1 and (table := labelled_table(setting, by_backbone, "backbone", None)):
            yield f"Augmentation `{augmentation}`, {setting.recipe} recipe, {setting.level}", table


def longest_first(grouped: Study) -> list[Setting]:
    """Settings by backbone and recipe, of each the one with most methods first: its order is that of all."""
    return sorted(grouped, key=lambda setting: (setting.group, -len(grouped[setting]), setting))


def times(grouped: Study) -> str:
    """Time and memory of each method, over all seeds and shares of noise."""
    seconds: dict[tuple[str, str, str], list[float]] = {}
    gib: dict[tuple[str, str, str], list[float]] = {}
    for setting in longest_first(grouped):
        for one in time_table(grouped[setting]):
            whose = (setting.backbone, setting.recipe, one.method.label)
            seconds.setdefault(whose, []).extend(one.epoch.values)
            gib.setdefault(whose, []).append(one.peak_gib)
    lines = [["backbone", "recipe", "method", "training, seconds per epoch", "peak memory, GiB"]]
    lines += [[*whose, f"{median(seconds[whose]):.1f}", f"{max(gib[whose]):.2f}"] for whose in seconds]
    return rows_of(lines)


def device(record: Record) -> tuple[str, ...]:
    """The machine and torch of a run, as far as it was recorded."""
    names = ("processor", "cores", "threads", "memory_gib", "torch")
    return tuple(str(record.machine.get(name, "–")) for name in names)


def devices(records: Sequence[Record]) -> str:
    """What the runs ran on."""
    counts: dict[tuple[str, ...], int] = {}
    for record in records:
        counts[device(record)] = counts.get(device(record), 0) + 1
    titles = ["processor", "cores", "threads per run", "memory, GiB", "torch", "runs"]
    return rows_of([titles, *([*found, str(count)] for found, count in sorted(counts.items()))])
