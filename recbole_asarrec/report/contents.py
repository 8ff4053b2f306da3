"""Everything a report says, computed once: tables, times, figures, cases, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from recbole_asarrec.experiments.records import PROTOCOLS, Record
from recbole_asarrec.report import figures, inside
from recbole_asarrec.report.formats import leaderboard
from recbole_asarrec.report.plots import Figure
from recbole_asarrec.report.study import Method, Setting, across_recipes, study, sweep_centers
from recbole_asarrec.report.tables import Table, Times, make_recipe_table, make_table, time_table

# the page's chapters of figures, and which grid would make one that is not there
MISSING = {
    "noise": "The noise curves need runs at two or more levels: a grid with "
    "noise_ratios: [0, 0.1, 0.2, 0.3, 0.4, 0.5].",
    "motivation": "This figure needs the backbone and some of the five operations: a grid with "
    "augmentations: [none, crop, mask, reorder, insert, substitute, [insert, mask], [crop, reorder]] "
    "and noise_ratios: [0, 0.2].",
    "sweeps": "The sweeps need AsarRec at several values of one key: a grid with augmentations: [asar] and "
    "sweep: {num_candidates: [0, 1, 3, 5, 10]}, {diversity_weight: [0, 0.5, 1, 2, 5]} or "
    "{semantic_weight: [0, 1, 2, 5, 10]}.",
    "matrices": "The matrices need a grid with augmentations: [asar].",
    "learning": "The learning curves need runs that were validated while they trained.",
}


@dataclass(frozen=True)
class Contents:
    """What is in a report.

    Attributes:
        records: the runs.
        tables: methods at equal recipe, by setting, then protocol.
        recipes: recipes at equal method, alike.
        times: time tables by setting.
        entries: the leaderboard.
        figures: by chapter (:data:`MISSING`).
        views: the settings and methods whose augmenter was looked into.
    """

    records: Sequence[Record]
    tables: list[Table]
    recipes: list[Table]
    times: dict[Setting, list[Times]]
    entries: list[dict[str, Any]]
    figures: dict[str, list[Figure]]
    views: list[tuple[Setting, Method]]


def contents(records: Sequence[Record]) -> Contents:
    """Compute a report; of runs with the same specification the last one counts."""
    records = list({record.spec.run: record for record in records}.values())
    grouped = study(records)
    wanted = [(setting, protocol) for setting in grouped for protocol in PROTOCOLS]
    tables = [
        table
        for setting, protocol in tqdm(wanted, unit=" tables", leave=False, disable=None)
        if (table := make_table(setting, grouped[setting], protocol))
    ]
    recipes = [
        table
        for setting, by_recipe in across_recipes(grouped).items()
        for protocol in PROTOCOLS
        if (table := make_recipe_table(setting, by_recipe, protocol))
    ]
    families = figures.families(grouped)
    drawn = {
        "noise": [figures.noise_curves(grouped, family) for family in families],
        "motivation": [figures.motivation(grouped, family) for family in families],
        "sweeps": [figures.sweeps(grouped, family) for family in families],
        "matrices": [inside.matrices(grouped, family) for family in families],
        "learning": [inside.learning_curves(setting, methods) for setting, methods in grouped.items()],
    }
    return Contents(
        records,
        tables,
        recipes,
        {setting: time_table(methods) for setting, methods in grouped.items()},
        leaderboard([*tables, *recipes]),
        {chapter: [figure for figure in found if figure] for chapter, found in drawn.items()},
        [
            (setting, method)
            for setting, methods in grouped.items()
            for method in sweep_centers(methods)
            if method.any_record.views
        ],
    )
