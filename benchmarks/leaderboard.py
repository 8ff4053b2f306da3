"""``leaderboard``: write docs/results, a page for each dataset of the recorded runs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import leaderboard_settings as settings
from benchmarks import leaderboard_tables as tables
from benchmarks.common import ROOT
from recbole_asarrec.errors import DataError
from recbole_asarrec.experiments.records import RUNS, Record, read
from recbole_asarrec.files import atomic_write
from recbole_asarrec.report.study import Method, Setting, study

RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs" / "results"
SITE = ROOT / "mkdocs.yml"
MARK = "<!-- Written by python -m benchmarks leaderboard -->"
_NAVIGATION = re.compile(r"^  - Results:\n(?:    .*\n)*", re.M)
_LEAVE_ONE_OUT = {"LS": "valid_and_test"}
_FULL = {"valid": "full", "test": "full"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``leaderboard``."""
    parser.description = "Writes docs/results/ from benchmarks/results/*, and the site's list of its pages."
    parser.add_argument("-o", "--output", type=Path, default=PAGES, help="folder (default: docs/results)")


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    folder: Path = arguments.output
    found = pages(*recorded())
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):  # of data that is not recorded any more
        if old.name not in found and old.read_text(encoding="utf-8").startswith(MARK):
            old.unlink()
    for name, text in found.items():
        _write(folder / name, text)
    if folder.absolute() == PAGES:
        _write(SITE, navigation(SITE.read_text(encoding="utf-8"), found))
    print(f"{len(found)} pages: {folder}")


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as sink:
        sink.write(text)


def recorded(folder: Path = RESULTS) -> tuple[list[Record], list[Record]]:
    """All runs, those that were tested and trials; of the same specification the last one counts."""
    found = [record for file in sorted(folder.glob(f"*/{RUNS}")) for record in read(file.parent)]
    tested = {record.spec.run: record for record in found if record.ranks}
    trials = {record.spec.run: record for record in found if not record.ranks}
    return list(tested.values()), list(trials.values())


def pages(tested: Sequence[Record], trials: Sequence[Record]) -> dict[str, str]:
    """All pages by file name, the table of contents first.

    Raises:
        DataError: there is no tested run.
    """
    if not tested:
        raise DataError("There is no recorded run with test figures; a grid makes them.")
    by_dataset = {
        name: [record for record in tested if record.spec.dataset == name]
        for name in sorted({record.spec.dataset for record in tested})
    }
    made = {f"{name}.md": page(name, records, trials) for name, records in by_dataset.items()}
    return {"index.md": index(by_dataset), **made}


def index(by_dataset: Mapping[str, Sequence[Record]]) -> str:
    """The table of contents."""
    lines = [["dataset", "backbones", "recipes", "noise", "runs", "seeds"]]
    for name, records in by_dataset.items():
        grouped = study(records)
        lines.append(
            [
                f"[{name}]({name}.md)",
                ", ".join(sorted({one.backbone for one in grouped})),
                ", ".join(sorted({one.recipe for one in grouped})),
                ", ".join(f"{100 * ratio:g} %" for ratio in sorted({one.noise_ratio for one in grouped})),
                str(len(records)),
                str(len({record.spec.seed for record in records})),
            ]
        )
    text = (
        "A page for each dataset: settings, result tables by RecBole's ranking metrics, the values that\n"
        "were used and searched, and time and memory. Methods are compared at equal recipe, recipes at\n"
        "equal method. `python -m benchmarks leaderboard` writes the pages from the recorded runs."
    )
    return "\n\n".join([MARK, "# Results", text, tables.rows_of(lines)]) + "\n"


def page(dataset: str, records: Sequence[Record], trials: Sequence[Record]) -> str:
    """One dataset.

    Args:
        dataset: its name.
        records: its tested runs.
        trials: runs that left the test data unread; those of other datasets are passed over.
    """
    trials = [one for one in trials if one.spec.dataset == dataset]
    grouped = study(records)
    parts = [
        MARK,
        f"# {dataset}",
        "[All datasets](index.md)",
        f"## Evaluation\n\n{protocol(records)}\n\n{tables.LEGEND}",
        f"## Data\n\n{data(records)}",
        f"## Runs\n\n{settings.provenance(records, *settings.known_and_stale())}",
        "## Methods at equal recipe",
        *methods(grouped, trials),
        *_chapter("Recipes at equal method", _recipes_text(records), tables.recipe_sections(grouped)),
        *_chapter("Backbones", BACKBONES_TEXT, tables.backbone_sections(grouped)),
        f"## Time and memory\n\n{TIMES_TEXT}\n\n{tables.times(grouped)}\n\n{tables.devices(records)}",
    ]
    return "\n\n".join(parts) + "\n"


LEAVE_ONE_OUT = (
    "Leave one out: the last item of each user is for test, the one before it for validation, ranked among\n"
    "all items of the catalogue."
)
HISTORY = (
    "*History kept* ranks all items, as RecBole does; *history removed* leaves out those of the user's\n"
    "history, as `exclude_history: True` does."
)
BACKBONES_TEXT = "All keys but the backbone's own, as its dropout and learning rate, are equal."
TIMES_TEXT = (
    "The median over the epochs of all seeds and shares of noise, without validation, and the most memory\n"
    "that a run's process held. Evaluation is not timed."
)


def _recipes_text(records: Sequence[Record]) -> str:
    """What a reader must know of the recipes: those that have changed are not today's."""
    said = ["All other keys are equal."]
    for recipe in sorted({record.spec.recipe for record in records}):
        for note in settings.changed_recipe([one for one in records if one.spec.recipe == recipe]):
            said.append(f"The {recipe} recipe: {note[:1].lower()}{note[1:]}")
    return "\n".join(said)


def _chapter(title: str, text: str, sections: Iterator[tuple[str, str]]) -> Iterator[str]:
    """A heading with its sections; nothing where there is none."""
    found = [f"### {heading}\n\n{table}" for heading, table in sections]
    if found:
        yield f"## {title}\n\n{text}"
        yield from found


def protocol(records: Sequence[Record]) -> str:
    """How the runs were evaluated, as far as their configuration tells."""
    splits: list[Mapping[str, Any]] = []
    for record in records:
        split = record.config.get("eval_args")
        if split and split not in splits:
            splits.append(split)
    usual = all(one.get("split") == _LEAVE_ONE_OUT and one.get("mode") == _FULL for one in splits)
    said = [LEAVE_ONE_OUT] if splits and usual else [f"`eval_args: {one}`." for one in splits]
    said.append(HISTORY)
    watched = sorted({str(record.config["valid_metric"]) for record in records})
    said.append(f"The weights of the epoch with the best {' or '.join(watched)} on validation are tested.")
    said.append("One item is relevant for each user, so Recall@k is Hit@k, and Precision@k is Hit@k / k.")
    return "\n".join(said)


def data(records: Sequence[Record]) -> str:
    """The size of the data and its filters; a count that was not recorded is a dash."""
    keys = ("MAX_ITEM_LIST_LENGTH", "user_inter_num_interval", "item_inter_num_interval")
    counts = ("users", "items", "interactions", "average length", "sparsity")
    lines = [["data", *counts, "users tested", *(f"`{key}`" for key in keys)]]
    for name, one in _by_data(records).items():
        users = {len(ranks) for ranks in one.ranks.values()}
        limits = [str(one.config.get(key) or "–") for key in keys]
        tested = " or ".join(f"{number:,}" for number in sorted(users))
        lines.append([name, *_statistics(one.data), tested, *limits])
    return tables.rows_of(lines)


def _statistics(size: Mapping[str, int] | None) -> list[str]:
    """Counts, average length and sparsity as RecBole prints them."""
    if size is None:
        return 5 * ["–"]
    users, items, interactions = size["users"], size["items"], size["interactions"]
    return [
        *(f"{number:,}" for number in (users, items, interactions)),
        f"{interactions / users:.1f}",
        f"{1 - interactions / users / items:.2%}".replace("%", " %"),
    ]


def _by_data(records: Sequence[Record]) -> dict[str, Record]:
    """A run of each cut of the dataset, other users or other filters; one with counts if there is one."""
    found: dict[tuple[str, str], Record] = {}
    for setting, methods in study(records).items():
        for method in methods:
            for record in method.records.values():
                key = (setting.dataset, record.users)
                if key not in found or found[key].data is None:
                    found[key] = record
    return {
        name if sum(other == name for other, _ in found) == 1 else f"{name} ({users[:6]})": record
        for (name, users), record in found.items()
    }


def methods(grouped: tables.Study, trials: Sequence[Record]) -> Iterator[str]:
    """For each backbone and recipe its configuration, a table a share of noise, and the values used."""
    for group in dict.fromkeys(setting.group for setting in grouped):
        yield _group({one: found for one, found in grouped.items() if one.group == group}, trials)


def _group(alike: Mapping[Setting, Sequence[Method]], trials: Sequence[Record]) -> str:
    """One backbone by one recipe."""
    every = [method for setting in tables.longest_first(alike) for method in alike[setting]]
    records = [record for method in every for record in method.records.values()]
    shared, first = settings.shared_keys(records), next(iter(alike))
    cut = f" ({first.dataset})" if first.dataset != records[0].spec.dataset else ""  # filtered otherwise
    title = f"{first.backbone}, {first.recipe} recipe{cut}"
    parts = [f"### {title}", settings.configuration(first, alike[first][-1], records, shared)]
    for setting, found in alike.items():
        parts.append(f"#### {title}, {setting.level}")
        parts += filter(None, [settings.noise(found[0].any_record), tables.methods_table(setting, found)])
        if swept := tables.sweeps_table(setting, found):
            parts.append(f"Sweeps:\n\n{swept}")
    shown: dict[str, Method] = {}
    for method in every:
        shown.setdefault(method.label, method)
    parts.append(f"Values and tuning:\n\n{settings.values(list(shown.values()), trials, shared)}")
    return "\n\n".join(parts)


def navigation(site: str, names: Collection[str]) -> str:
    """The text of ``mkdocs.yml`` with these pages in its part ``Results``."""
    others = [name for name in names if name != "index.md"]
    lines = ["  - Results:", "    - Overview: results/index.md"]
    lines += [f"    - {name.removesuffix('.md')}: results/{name}" for name in others]
    return _NAVIGATION.sub(lambda _: "\n".join(lines) + "\n", site)
