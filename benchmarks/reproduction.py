"""``reproduction``: write docs/paper.md, the paper's tables beside recorded runs of ``recipe: paper``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks import paper_views
from benchmarks.common import ROOT
from benchmarks.paper_views import standing
from recbole_asarrec.augment.registry import MATRICES
from recbole_asarrec.experiments.records import RUNS, Record, read
from recbole_asarrec.experiments.significance import Comparison, Outcome, compare
from recbole_asarrec.files import atomic_write
from recbole_asarrec.report.study import Method, Setting, study

PAGE = ROOT / "docs" / "paper.md"
PROTOCOL = "unseen_items"  # the paper's group removes the history from the ranking
METRICS = ("hit@10", "ndcg@10")
NAMES = {
    "none": "backbone",
    "crop": "Crop",
    "mask": "Mask",
    "reorder": "Reorder",
    "insert": "Insert",
    "substitute": "Substitute",
    "coserec_insert": "CoSeRec, insert",
    "coserec_substitute": "CoSeRec, substitute",
    "cl4srec": "CL4SRec",
    "s3rec": "S3-Rec",
    "dropout": "dropout alone",
    "random_matrix": "random matrices",
    "asar": "**AsarRec**",
}
DATASETS = {"amazon-arts-18": "Arts", "amazon-games-18": "Games", "amazon-beauty": "Beauty"}
Figures = Mapping[str, Sequence[float]]  # HR@10 and NDCG@10 by augmentation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``reproduction``."""
    parser.description = "Writes docs/paper.md from benchmarks/paper.yaml and benchmarks/results/paper-*."
    parser.add_argument("-o", "--output", type=Path, default=PAGE, help="the page (default: docs/paper.md)")


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    with atomic_write(arguments.output) as sink:
        sink.write(page())


def page() -> str:
    """The whole page, from the text in ``paper.md`` beside this file and the recorded runs."""
    here = Path(__file__).parent
    text = (here / "paper.md").read_text(encoding="utf-8")
    published = yaml.safe_load((here / "paper.yaml").read_text(encoding="utf-8"))
    folders = sorted((here / "results").glob(f"paper-*/{RUNS}"))
    settings = study(record for folder in folders for record in read(folder.parent))
    parts = {
        "tables": "\n\n".join(tables(settings, published)),
        "trials": trials(read(here / "results" / "tuning-paper-arts")),
        "times": paper_views.times(settings, NAMES, published["seconds"]),
        "matrices": paper_views.matrices(settings, DATASETS),
    }
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part)
    return text


def trials(records: Iterable[Record]) -> str:
    """Markdown: each method's validation figures by share of edits and weight of InfoNCE, best in bold."""
    found: dict[str, dict[tuple[float, float], Record]] = {}  # by share of edits and weight
    for record in records:
        if "contrastive_weight" in record.spec.keys:
            found.setdefault(record.spec.augmentation, {})[tried(record)] = record
    columns = sorted({column for method in found.values() for column in method})
    lines = [
        f"| method | {' | '.join(f'γ {_short(share)}, λ {_short(weight)}' for share, weight in columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for name in (one for one in NAMES if one in found):
        best = max(found[name].values(), key=lambda record: record.validation)
        cells = []
        for column in columns:
            record = found[name].get(column)
            figures = " / ".join(_figure(record.valid[metric]) for metric in METRICS) if record else ""
            cells.append(f"**{figures}**" if record is best else figures)
        lines.append(f"| {NAMES[name]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tried(record: Record) -> tuple[float, float]:
    """The share of edits and the weight of InfoNCE."""
    share = record.config.get("operation_ratio")
    if share is None or record.spec.augmentation in MATRICES:
        share = record.config["perturbation_budget"]
    return share, record.config["contrastive_weight"]


def tables(settings: Mapping[Setting, Sequence[Method]], published: Mapping[str, Any]) -> Iterator[str]:
    """A section for each backbone, dataset and share of noise that has been run."""
    for setting, methods in settings.items():
        level = "noisy" if setting.noise_ratio else "clean"
        paper = published.get(setting.backbone.lower(), {}).get(level, {}).get(setting.dataset, {})
        yield section(setting, methods, paper)


def section(setting: Setting, methods: Sequence[Method], paper: Figures) -> str:
    """One table: each method here and in the paper, with what it gains over the backbone."""
    shown = {name: one for name in NAMES if (one := standing(methods, name))}
    outcomes = {name: one.outcome(PROTOCOL) for name, one in shown.items()}
    validated = {name: one.validation() for name, one in shown.items()}
    gains = _gains(outcomes)
    title = f"### {DATASETS.get(setting.dataset, setting.dataset)}, {setting.backbone}, {setting.level}"
    lines = [
        "| method | γ, λ | validation | test | gain | seeds | paper | gain | verdict |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in (one for one in NAMES if one in outcomes):
        found = outcomes[name]
        here = [gains.get((name, metric)) for metric in METRICS]
        there = [_ratio(paper, name, place) for place in range(len(METRICS))]
        cells = [
            NAMES[name],
            "" if name == "none" else ", ".join(map(_short, tried(shown[name].any_record))),
            _figure(validated[name]),
            " / ".join(_spread(found, metric) for metric in METRICS),
            " / ".join(_gain(one.gain, one.stars) if one else "" for one in here).strip(" /"),
            str(len(found.ranks)),
            " / ".join(_figure(value) for value in paper.get(name, ())),
            " / ".join(_gain(one) for one in there if one is not None),
            verdict(here, there),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(
        [title, "", *lines, "", *_closing(outcomes, validated), *_variants(methods, outcomes, shown)]
    ).rstrip()


def _gains(outcomes: Mapping[str, Outcome]) -> dict[tuple[str, str], Comparison]:
    """Over the backbone, by method and metric."""
    pairs = [(name, "none", metric) for name in outcomes for metric in METRICS if name != "none"]
    return {(one.method, one.metric): one for one in compare(outcomes, pairs)} if "none" in outcomes else {}


def _variants(
    methods: Sequence[Method], outcomes: Mapping[str, Outcome], shown: Mapping[str, Method]
) -> Iterator[str]:
    """What the paper shows in figures: pairs of operations, and AsarRec with other keys."""
    found = {
        one.label: one.outcome(PROTOCOL)
        for one in methods
        if not one.stock and all(one is not other for other in shown.values())
    }
    if not found:
        return
    gains = _gains({**found, **{name: one for name, one in outcomes.items() if name == "none"}})
    yield from ("", "| variation | here | gain | seeds |", "|---|---|---|---|")
    for label, one in found.items():
        here = [gains.get((label, metric)) for metric in METRICS]
        cells = [
            label,
            " / ".join(_spread(one, metric) for metric in METRICS),
            " / ".join(_gain(gain.gain, gain.stars) for gain in here if gain),
            str(len(one.ranks)),
        ]
        yield "| " + " | ".join(cells) + " |"


def verdict(here: Sequence[Comparison | None], there: Sequence[float | None]) -> str:
    """Whether a gain over the backbone was found again.

    ``reproduced``: at least half of the paper's gain by both metrics, or a loss where the paper has one;
    ``partly``: by one of them; ``not reproduced``: by neither.
    """
    pairs = [(one.gain, other) for one, other in zip(here, there) if one is not None and other is not None]
    held = [mine >= other / 2 if other > 0 else mine <= 0 for mine, other in pairs if mine is not None]
    if not held:
        return ""
    return "reproduced" if all(held) else "partly" if any(held) else "not reproduced"


def _closing(outcomes: Mapping[str, Outcome], validated: Mapping[str, float]) -> Iterator[str]:
    """AsarRec against the baseline that one would choose by validation, and against random matrices.

    The choice is among the baselines that have the most seeds in common with AsarRec.
    """
    if "asar" not in outcomes:
        return
    seeds = outcomes["asar"].ranks.keys()
    others = {
        name: len(one.ranks.keys() & seeds)
        for name, one in outcomes.items()
        if name not in ("asar", "random_matrix", "none")
    }
    eligible = [name for name, common in others.items() if common and common == max(others.values())]
    if not eligible:
        return
    best = max(eligible, key=lambda name: validated[name])
    rivals = [best, *(name for name in ("random_matrix",) if name in outcomes)]
    found = compare(dict(outcomes), [("asar", rival, metric) for rival in rivals for metric in METRICS])
    for rival in rivals:
        said = [_gain(one.gain, one.stars) for one in found if one.baseline == rival and one.refused is None]
        which = f"{NAMES[rival]}, the best baseline on validation" if rival == best else NAMES[rival]
        if said:
            yield f"AsarRec over {which}: {' / '.join(said)}.  "


def _short(value: float) -> str:
    return f"{value:g}".lstrip("0")


def _figure(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def _spread(outcome: Outcome, metric: str) -> str:
    mean, std, _ = outcome.spread(metric)
    return _figure(mean) if std is None else f"{_figure(mean)} ± {_figure(std)}"


def _ratio(paper: Figures, name: str, place: int) -> float | None:
    """The paper's gain over its backbone."""
    if name == "none" or name not in paper or "none" not in paper:
        return None
    return paper[name][place] / paper["none"][place] - 1


def _gain(value: float | None, stars: str = "") -> str:
    return "–" if value is None else f"{100 * value:+.1f} %" + (f" {stars}" if stars else "")
