"""Methods × metrics for one setting and protocol: means, spreads, gains and tests, marked as in the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recbole_asarrec.experiments.significance import (
    FEWEST_SEEDS,
    METRICS,
    Comparison,
    Spread,
    compare,
    spread,
)
from recbole_asarrec.report.study import CONTROL, LEARNED, Method, Setting, backbone_row, sweep_centers

LEGEND = (
    "Mean ± standard deviation over seeds. Bold: best; underlined: runner-up; grey: below the backbone. "
    "** p < 0.05, * p < 0.1: better than the runner-up by a paired two-sided t-test over users and by a "
    "bootstrap of users; † p < 0.05: better than the backbone by the same two. "
    "All p-values of a table are corrected together (Holm); fewer than three seeds get no mark. "
    "A user's metric is averaged over seeds first, so p speaks of other users, not of other seeds. "
    "All methods of a table are trained by the same recipe. The last lines are what AsarRec gains over the "
    "backbone, over the best other method and over random matrices, tested alike; 2/3 behind it: AsarRec is "
    "ahead in two of the three seeds. "
    "Of a method's variants the one counts that sets the fewest keys of this package; if they differ by the "
    "backbone's keys, as its dropout, the one that validation prefers. Names say what tells "
    "variants apart; the YAML of a row has all of its keys."
)


@dataclass(frozen=True)
class Cell:
    """One method's metric.

    Attributes:
        spread: over seeds.
        place: 1 for the best of the table, 2 for the runner-up, and so on.
        gain: relative to the best other method; nothing if there is none, or where that has 0.
        worse: whether it is below the backbone.
        baseline: the test of the best against the runner-up.
        backbone: the test against the backbone.
    """

    spread: Spread
    place: int
    gain: float | None
    worse: bool
    baseline: Comparison | None = None
    backbone: Comparison | None = None

    @property
    def marks(self) -> str:
        """Stars for beating the runner-up, a dagger for beating the backbone."""
        stars = self.baseline.stars if self.baseline else ""
        return stars + ("†" if self.backbone and self.backbone.stars == "**" else "")


@dataclass(frozen=True)
class Gain:
    """A method over an opponent, metric by metric.

    Attributes:
        opponent: ``backbone``, ``baseline`` (the best other method), the control or, in a table of recipes,
            the recipe that gains.
        tests: the method against the opponent, on the seeds that both have.
    """

    opponent: str
    tests: dict[str, Comparison]

    @property
    def over(self) -> str:
        """The opponent's name; another metric may have another best baseline."""
        return ", ".join(dict.fromkeys(test.baseline for test in self.tests.values()))

    @property
    def title(self) -> str:
        """``AsarRec over SASRec``, ``AsarRec over the best baseline (Mask)``."""
        (learned,) = {test.method for test in self.tests.values()}
        whom = f"the best baseline ({self.over})" if self.opponent == "baseline" else self.over
        return f"{learned} over {whom}"


@dataclass(frozen=True)
class Row:
    """One method.

    Attributes:
        method: its runs.
        seeds: how many seeds were tested under the table's protocol.
        cells: by metric.
    """

    method: Method
    seeds: int
    cells: dict[str, Cell]


@dataclass(frozen=True)
class Table:
    """One setting under one protocol.

    Attributes:
        setting: what the rows share.
        protocol: how items were ranked.
        rows: in the paper's order.
        gains: of AsarRec, over each opponent it has here.
        notes: what a reader must know, a sentence each.
    """

    setting: Setting
    protocol: str
    rows: list[Row]
    gains: list[Gain]
    notes: list[str]

    @property
    def champion(self) -> Row | None:
        """AsarRec's, if it has anybody to be compared with."""
        learned = [row for row in self.rows if row.method.augmentation == LEARNED]
        return learned[0] if learned and len(self.rows) > 1 else None


def make_table(
    setting: Setting, methods: Sequence[Method], protocol: str, metrics: Sequence[str] = METRICS
) -> Table | None:
    """The table of one setting; nothing if no run was tested under the protocol."""
    chosen = {method.label: method for method in sweep_centers(methods) if method.outcome(protocol).ranks}
    if not chosen:
        return None
    order = _best_first(chosen, protocol, metrics)
    backbone = backbone_row(list(chosen.values()))
    return _table(setting, protocol, chosen, backbone, _duels(chosen, order, backbone), methods, metrics)


def make_recipe_table(
    setting: Setting, by_recipe: Mapping[str, Method], protocol: str, metrics: Sequence[str] = METRICS
) -> Table | None:
    """One method under several recipes, each beside the first of them that was run without additions."""
    return make_label_table(setting, by_recipe, protocol, "plain", metrics)


def make_label_table(
    setting: Setting,
    by_label: Mapping[str, Method],
    protocol: str,
    base: str | None = None,
    metrics: Sequence[str] = METRICS,
) -> Table | None:
    """Runs under labels of their own, each beside the one labelled ``base``; nothing if fewer than two."""
    chosen = {
        label: replace(method, label=label)
        for label, method in by_label.items()
        if method.outcome(protocol).ranks
    }
    if len(chosen) < 2:
        return None
    plain = chosen.get(base) if base else None
    duels = {
        label: [(label, plain.label, metric) for metric in metrics]
        for label in chosen
        if plain and label != plain.label
    }
    return _table(setting, protocol, chosen, plain, duels, (), metrics)


def _best_first(chosen: Mapping[str, Method], protocol: str, metrics: Sequence[str]) -> dict[str, list[str]]:
    """By metric, the methods' labels from the best mean to the worst."""
    outcomes = {label: method.outcome(protocol) for label, method in chosen.items()}
    means = {
        label: {metric: outcome.spread(metric).mean for metric in metrics}
        for label, outcome in outcomes.items()
    }
    return {metric: sorted(chosen, key=lambda label: -means[label][metric]) for metric in metrics}


def _table(
    setting: Setting,
    protocol: str,
    chosen: Mapping[str, Method],
    backbone: Method | None,
    duels: Mapping[str, list[tuple[str, str, str]]],
    methods: Sequence[Method],
    metrics: Sequence[str],
) -> Table:
    """Means, places and tests of the ``chosen`` methods, by label; the notes are about all ``methods``."""
    outcomes = {label: method.outcome(protocol) for label, method in chosen.items()}
    spreads = {label: {metric: outcomes[label].spread(metric) for metric in metrics} for label in chosen}
    order = _best_first(chosen, protocol, metrics)
    pairs = [(best[0], best[1], metric) for metric, best in order.items() if len(best) > 1]
    if backbone:
        pairs += [
            (label, backbone.label, metric)
            for label in chosen
            for metric in metrics
            if label != backbone.label
        ]
    pairs += [pair for duel in duels.values() for pair in duel]
    pairs = list(dict.fromkeys(pairs))
    found = dict(zip(pairs, compare(outcomes, pairs)))

    def cell(label: str, metric: str) -> Cell:
        ranking = order[metric]
        own = spreads[label][metric]
        others = [spreads[other][metric].mean for other in ranking if other != label]
        base = backbone.label if backbone else None
        return Cell(
            spread=own,
            place=ranking.index(label) + 1,
            gain=own.mean / others[0] - 1 if others and others[0] else None,
            worse=base is not None and own.mean < spreads[base][metric].mean,
            baseline=found.get((label, ranking[1], metric)) if ranking[0] == label and others else None,
            backbone=found.get((label, base, metric)) if base else None,
        )

    rows = [
        Row(method, len(outcomes[label].ranks), {metric: cell(label, metric) for metric in metrics})
        for label, method in chosen.items()
    ]
    gains = [Gain(name, {pair[-1]: found[pair] for pair in duel}) for name, duel in duels.items()]
    return Table(setting, protocol, rows, gains, _notes(methods, rows, list(found.values()), backbone))


def _duels(
    chosen: Mapping[str, Method], order: Mapping[str, list[str]], backbone: Method | None
) -> dict[str, list[tuple[str, str, str]]]:
    """AsarRec against each opponent, a pair a metric; variants of its own are nobody's opponents."""

    def first(augmentation: str) -> str | None:
        return next((label for label, one in chosen.items() if one.augmentation == augmentation), None)

    learned = first(LEARNED)
    if learned is None:
        return {}
    others = ("none", CONTROL, LEARNED)
    baselines = {label for label, method in chosen.items() if method.augmentation not in others}
    met: dict[str, dict[str, str]] = {}
    if backbone:
        met["backbone"] = dict.fromkeys(order, backbone.label)
    if baselines:
        met["baseline"] = {metric: next(one for one in order[metric] if one in baselines) for metric in order}
    if control := first(CONTROL):
        met[CONTROL] = dict.fromkeys(order, control)
    return {name: [(learned, one, metric) for metric, one in whom.items()] for name, whom in met.items()}


def _notes(
    methods: Sequence[Method], rows: list[Row], comparisons: list[Comparison], backbone: Method | None
) -> list[str]:
    notes = []
    counts = {row.seeds for row in rows}
    if len(counts) > 1:
        said = ", ".join(f"{row.method.label} {row.seeds}" for row in rows)
        notes.append(f"The methods have different numbers of seeds ({said}).")
    if min(counts) < FEWEST_SEEDS:
        notes.append(f"A comparison on fewer than {FEWEST_SEEDS} common seeds is not marked.")
    refused = {
        f"{one.method} and {one.baseline} are not compared: {one.refused}."
        for one in comparisons
        if one.refused
    }
    notes += sorted(refused)
    if len(rows) == 1:
        notes.append("There is one method only, so nothing is compared.")
    elif backbone is None and methods:
        notes.append("The backbone (augmentation: none) was not run, so nothing is compared with it.")
    hidden = len(methods) - len(sweep_centers(methods))
    if hidden:
        notes.append(f"{hidden} variants that differ by a swept key alone stand among the sweeps.")
    return notes


@dataclass(frozen=True)
class Times:
    """What a method costs.

    Attributes:
        method: its runs.
        epoch: seconds an epoch, over all epochs of all seeds.
        ratio: the mean relative to the backbone's.
        epochs: epochs trained, over seeds.
        hours: training in all, over seeds.
        peak_gib: the most memory of any seed.
    """

    method: Method
    epoch: Spread
    ratio: float | None
    epochs: Spread
    hours: Spread
    peak_gib: float


def time_table(methods: Sequence[Method]) -> list[Times]:
    """Time and memory of the methods of one setting, in the order of the tables."""
    chosen = sweep_centers(methods)
    epochs = {
        method.label: [entry["seconds"] for record in method.records.values() for entry in record.curve]
        for method in chosen
    }
    plain = backbone_row(chosen)
    base = spread(epochs[plain.label]).mean if plain and epochs[plain.label] else None
    rows = []
    for method in chosen:
        records = list(method.records.values())
        if not epochs[method.label]:
            continue
        epoch = spread(epochs[method.label])
        rows.append(
            Times(
                method,
                epoch,
                epoch.mean / base if base else None,
                spread([len(record.curve) for record in records]),
                spread([record.seconds / 3600 for record in records]),
                max(record.peak_gib for record in records),
            )
        )
    return rows
