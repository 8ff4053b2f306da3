"""``prepare``: a publisher's raw file becomes a dataset that ``--dataset=`` finds."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from pathlib import Path

from recbole_asarrec.data.checks import check_name
from recbole_asarrec.errors import DataError
from recbole_asarrec.files import atomic_folder
from recbole_asarrec.prepare import amazon, mind, movielens, text
from recbole_asarrec.prepare.formats import Event, Format, Reading, Title, choose
from recbole_asarrec.prepare.interactions import Interactions, collect
from recbole_asarrec.prepare.paper import LABELLED, PUBLISHED
from recbole_asarrec.prepare.statistics import table
from recbole_asarrec.prepare.writer import write_inter, write_titles

_EVENTS = (
    amazon.REVIEWS,
    amazon.RATINGS_2014,
    amazon.RATINGS_2018,
    mind.BEHAVIOURS,
    movielens.RATINGS,
    text.PAIRS,
    text.SEQUENCES,
)
FORMATS: Mapping[str, Format[Event]] = {known.name: known for known in _EVENTS}
TITLES: Mapping[str, Format[Title]] = {
    known.name: known for known in (amazon.PRODUCTS, mind.NEWS, movielens.MOVIES)
}


def read_interactions(reading: Reading[Event]) -> tuple[Interactions, int]:
    """A raw file's interactions, users together and oldest first, and the number of dropped duplicates."""
    every = collect(reading.records())
    if not len(every):
        raise DataError(f"'{reading.path}' holds no interaction: {reading.summary()}.")
    if not reading.format.timed:
        return every.by_user().numbered(), 0
    once = every.without_duplicates()
    return once.by_user(), len(every) - len(once)


def draw(interactions: Interactions, count: float, seed: int) -> Interactions:
    """That many users at random, said aloud; of fewer, all."""
    there = len(interactions.users)
    if count >= there:
        return interactions
    print(f"{count:,} of {there:,} users drawn with seed {seed}.")
    return interactions.sample(int(count), seed)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, but is '{text}'")
    return int(text)


def _users(text: str) -> float:
    if text == "all":
        return math.inf
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a number of users or 'all', but is '{text}'")
    return int(text)


def _papers_users(name: str) -> float:
    return PUBLISHED[name].users_sampled if name in PUBLISHED else math.inf


DESCRIPTION = (
    "Formats are told by the first lines: "
    + "; ".join(f"{known.name} ({known.about})" for known in _EVENTS)
    + "; each may be gzipped. Names with the paper's settings: "
    + ", ".join(PUBLISHED)
    + "; any other name works too."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``prepare``."""
    parser.description = DESCRIPTION
    parser.add_argument("name", help="what to call the dataset")
    parser.add_argument("--from", dest="raw", type=Path, required=True, metavar="FILE", help="the raw file")
    parser.add_argument(
        "--data_path", type=Path, default=Path("dataset"), help="where datasets lie (default: dataset)"
    )
    parser.add_argument("--format", choices=FORMATS, help="read the file as this, whatever it looks like")
    parser.add_argument(
        "--items",
        type=Path,
        metavar="FILE",
        help="the publisher's item file, for names: Amazon metadata, MIND's news.tsv, MovieLens' movies.csv",
    )
    parser.add_argument(
        "--users",
        type=_users,
        metavar="N",
        help="keep N users drawn at random, or 'all' (default: all; for mind 200000)",
    )
    parser.add_argument("--seed", type=_seed, default=0, help="seed of that draw (default: 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace a dataset that exists")


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    name, folder = arguments.name, arguments.data_path / arguments.name
    check_name(name)
    files = [folder / f"{name}.inter", *([folder / f"{name}.item"] if arguments.items else [])]
    for file in files:
        if file.exists() and not arguments.overwrite:
            raise DataError(f"'{file}' exists; choose another name or add --overwrite.")
    reading = Reading(arguments.raw, choose(arguments.raw, FORMATS, arguments.format))
    naming = Reading(arguments.items, choose(arguments.items, TITLES, None)) if arguments.items else None

    print(f"Reading '{arguments.raw}' as {reading.format.about}.", file=sys.stderr)
    every, duplicates = read_interactions(reading)
    twice = f", {duplicates:,} events given twice counted once" if duplicates else ""
    print(f"{reading.summary()}{twice}.")
    interactions = draw(every, arguments.users or _papers_users(name), arguments.seed)
    titles: dict[str, str] = {}
    if naming:
        wanted = set(interactions.items)
        titles = {item: title for item, title in naming.records() if item in wanted}
        print(f"Item names: {naming.summary()}.")

    try:
        with atomic_folder(folder) as part:
            write_inter(interactions, part / f"{name}.inter", labelled=name in LABELLED)
            if naming:
                write_titles(titles, interactions, part / f"{name}.item")
    except OSError as error:
        raise DataError(f"'{folder}' could not be written: {error.strerror or error}.") from error
    print(table(name, interactions))
    print(f"Wrote {' and '.join(map(str, files))}; use it with --dataset={name}.")
