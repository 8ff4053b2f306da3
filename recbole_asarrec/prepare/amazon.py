"""Amazon reviews of 2014 and 2018: JSON lines, ratings alone, and the products' names."""

from __future__ import annotations

import ast
import html
import json
from collections.abc import Callable, Sequence
from typing import Any

from recbole_asarrec.prepare.formats import Event, Format, Title, moment, most, token

_ITEM = r"(B[0-9A-Z]{9}|[0-9]{9}[0-9X])"
_USER = r"A[0-9A-Z]{9,}"
_RATING = r"[0-9.]+,[0-9]+$"


def _json(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _review(line: str) -> list[Event]:
    review = _json(line)
    return [
        (token(review.get("reviewerID")), token(review.get("asin")), moment(review.get("unixReviewTime")))
    ]


def _rating_2014(line: str) -> list[Event]:
    user, item, _, time = line.split(",")
    return [(token(user), token(item), moment(time))]


def _rating_2018(line: str) -> list[Event]:
    item, user, _, time = line.split(",")
    return [(token(user), token(item), moment(time))]


def _product(line: str) -> list[Title]:
    try:
        product = _json(line)
    except ValueError:  # the edition of 2014 is written as Python
        try:
            product = ast.literal_eval(line)
        except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
            raise ValueError("neither JSON nor Python") from error
        if not isinstance(product, dict):
            raise ValueError("not an object") from None
    title = product.get("title")
    return [(token(product.get("asin")), html.unescape(title))] if isinstance(title, str) else []


def _has(*words: str) -> Callable[[Sequence[str]], bool]:
    def fits(lines: Sequence[str]) -> bool:
        return 2 * sum(line.startswith("{") and all(w in line for w in words) for line in lines) >= len(lines)

    return fits


REVIEWS = Format(
    "amazon-json", "Amazon reviews as JSON lines", _has('"reviewerID"', '"asin"'), lambda: _review
)
RATINGS_2014 = Format(
    "amazon-csv-2014",
    "Amazon ratings of 2014, user,item,rating,time",
    most(f"{_USER},{_ITEM},{_RATING}"),
    lambda: _rating_2014,
)
RATINGS_2018 = Format(
    "amazon-csv-2018",
    "Amazon ratings of 2018, item,user,rating,time",
    most(f"{_ITEM},{_USER},{_RATING}"),
    lambda: _rating_2018,
)
PRODUCTS = Format("amazon-meta", "Amazon product metadata", _has("asin", "title"), lambda: _product)
