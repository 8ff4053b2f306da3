"""MovieLens' ``ratings.csv`` and ``movies.csv``."""

from __future__ import annotations

import csv

from recbole_asarrec.prepare.formats import Event, Format, Title, moment, most, token


def _rating(line: str) -> list[Event]:
    user, item, _, time = line.split(",")
    if user == "userId":
        return []
    return [(token(user), token(item), moment(time))]


def _movie(line: str) -> list[Title]:
    try:
        item, title, _ = next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise ValueError("not CSV") from error
    return [] if item == "movieId" else [(token(item), title)]


RATINGS = Format(
    "movielens",
    "MovieLens' ratings.csv",
    most(r"userId,movieId,rating,timestamp$|\d+,\d+,\d+(\.\d+)?,\d+$"),
    lambda: _rating,
)
MOVIES = Format(
    "movielens-movies", "MovieLens' movies.csv", most(r"movieId,title,genres$|\d+,.+,[^,]+$"), lambda: _movie
)
