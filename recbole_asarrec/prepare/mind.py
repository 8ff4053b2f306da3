"""MIND's ``behaviors.tsv`` and ``news.tsv``.

A user's events are the clicked items of their history, which have no times, and the clicked items of their
impressions. A history's places 0, 1, … stand in for times, so it comes before every click.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Callable
from time import strptime

from recbole_asarrec.prepare.formats import Event, Format, Title, most, token

_CLICKED = "-1"


def _behaviours() -> Callable[[str], list[Event]]:
    known: dict[str, int] = {}  # items of each user's history that are already read: most lines repeat it

    def parse(line: str) -> list[Event]:
        _, user, time, history, impressions = line.split("\t")
        user, clicked = token(user), float(timegm(strptime(time, "%m/%d/%Y %I:%M:%S %p")))
        items = [token(item) for item in history.split()]
        shown = impressions.split()
        clicks = [token(item[: -len(_CLICKED)]) for item in shown if item.endswith(_CLICKED)]
        begin = known.get(user, 0)
        known[user] = max(begin, len(items))
        before = [(user, item, float(place)) for place, item in enumerate(items[begin:], begin)]
        return before + [(user, item, clicked) for item in clicks]

    return parse


def _news(line: str) -> list[Title]:
    item, _, _, title, *_ = line.split("\t")
    return [(token(item), title)]


BEHAVIOURS = Format(
    "mind",
    "MIND's behaviors.tsv",
    most(r"[^\t]*\t[^\t]+\t\d+/\d+/\d+ \d+:\d+:\d+ [AP]M\t[^\t]*\t[^\t]*$"),
    _behaviours,
)
NEWS = Format("mind-news", "MIND's news.tsv", most(r"N\d+\t[^\t]*\t[^\t]*\t[^\t]+\t"), lambda: _news)
