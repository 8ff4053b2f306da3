"""Sections of docs/paper.md on what runs took and on what the learned matrices do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from recbole_asarrec.report.study import Method, Setting

TUNED = {"contrastive_weight", "operation_ratio"}  # of every method, on validation data
KINDS = ("masked", "cropped", "substituted", "inserted", "moved")


def standing(methods: Sequence[Method], augmentation: str) -> Method | None:
    """The runs that stand for a method: of those that differ by tuned keys, the best on validation.

    Those with most seeds are compared; none if there is no such run.
    """
    found = [
        one
        for one in methods
        if not one.stock and one.augmentation == augmentation and one.keys.keys() <= TUNED
    ]
    most = max((len(one.records) for one in found), default=0)
    return max((one for one in found if len(one.records) == most), key=Method.validation, default=None)


def times(
    settings: Mapping[Setting, Sequence[Method]], names: Mapping[str, str], paper: Mapping[str, float]
) -> str:
    """Markdown: an epoch of each method by the backbone's, in one setting and on one processor.

    Args:
        settings: methods by setting.
        names: of augmentations, in the order of the rows.
        paper: its seconds an epoch, by augmentation.
    """
    ratios: dict[str, list[float]] = {}
    for setting, methods in settings.items():
        if setting.backbone != "SASRec":
            continue
        seconds: dict[str, dict[str, list[float]]] = {}  # of epochs, by processor and augmentation
        for one in methods:
            for record in () if one.stock or one.keys.keys() - TUNED else one.records.values():
                here = seconds.setdefault(record.machine["processor"], {})
                here.setdefault(one.augmentation, []).extend(entry["seconds"] for entry in record.curve)
        for found in seconds.values():
            for name, values in found.items() if "none" in found else ():
                ratios.setdefault(name, []).append(_quick(values) / _quick(found["none"]))
    lines = ["| method | here | paper |", "|---|---|---|"]
    for name in names:
        if name in ratios:
            there = f"{paper[name] / paper['none']:.2f}" if name in paper else ""
            lines.append(f"| {names[name]} | {median(ratios[name]):.2f} | {there} |")
    return "\n".join(lines)


def _quick(seconds: Sequence[float]) -> float:
    """The quickest tenth of the epochs: other work on the machine slows the others down."""
    return float(np.quantile(seconds, 0.1))


def matrices(settings: Mapping[Setting, Sequence[Method]], titles: Mapping[str, str]) -> str:
    """Markdown: what AsarRec's two views do to the items of a history, in each setting.

    Args:
        settings: methods by setting.
        titles: of datasets.
    """
    kinds = " | ".join(KINDS)
    lines = [
        f"| data | view | in place: oldest, middle, newest | {kinds} | NDCG, floor | noise lift |",
        "|" + "---|" * (len(KINDS) + 5),
    ]
    for setting, methods in settings.items():
        one = standing(methods, "asar")
        found = one and one.any_record.views
        if not found:
            continue
        noise = found.get("noise")
        for number, rates in enumerate(found["rates"]):
            diagonal = np.diagonal(np.array(found["matrix"]["views"][number]))  # [n]
            in_place = (diagonal[0], diagonal[1:-1].mean(), diagonal[-1])
            cells = [
                f"{titles.get(setting.dataset, setting.dataset)}, {setting.backbone}, {setting.level}",
                str(number + 1),
                ", ".join(_percent(value) for value in in_place),
                *(_percent(rates[kind]) for kind in KINDS),
                f"{found['ndcg'][number]:.2f}, {found['floor']:.2f}",
                f"{noise['lift']:.2f}" if noise and number == 0 else "",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if value < 0.1 else f"{100 * value:.0f} %"
