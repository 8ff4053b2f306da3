"""What an augmenter does to histories, as plain data for pictures (``Record.views``).

ViewPair once at the end of a run, from the weights that were tested, on the rows that carry the contrastive
term: every user's longest training history.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from recbole_asarrec.augment import TransformMatrix, View, ViewPair, to_matrix
from recbole_asarrec.data import CONTRASTIVE_ROW
from recbole_asarrec.data.rows import Rows
from recbole_asarrec.experiments.edits import index_map_of, sort_edits
from recbole_asarrec.experiments.titles import read_titles
from recbole_asarrec.losses import SequenceQuality, sequence_quality
from recbole_asarrec.models import AsarRec
from recbole_asarrec.training.monitor import EDIT_KINDS, count_edits

LARGEST = 60_000  # bytes of JSON
_CASES = 12
_USERS = 2048
_LENGTHS = range(8, 21)  # histories that a picture can show
_CHUNK = 512


class Described(NamedTuple):
    """Both views of R histories.

    Attributes:
        history: item ids, ``[R, n]``.
        length: n per user, ``[R]``.
        views: as the backbone saw them.
        index_maps: the same by the history's positions; values from n on are new items, ``[R, n]``.
        kinds: by position of the view an index of :data:`EDIT_KINDS`, −1 for padding, ``[R, m]``.
        dropped: which history items are gone, ``[R, n]``.
        quality: NDCG of each view, and its floor, ``[R]``.
        candidates: what the matrices could choose from, ``[R, k]``; nothing for fixed operations.
    """

    history: Tensor
    length: Tensor
    views: tuple[View, ...]
    index_maps: tuple[Tensor, ...]
    kinds: tuple[Tensor, ...]
    dropped: tuple[Tensor, ...]
    quality: SequenceQuality
    candidates: Tensor | None


@contextmanager
def _as_found(model: Any, seed: int) -> Iterator[None]:
    """Draw by a seed of one's own, in evaluation mode, and leave no trace."""
    was_training = model.training
    device = next(model.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.no_grad():
        torch.manual_seed(seed)
        model.eval()
        try:
            yield
        finally:
            model.train(was_training)


def _describe(model: Any, dataset: Any, rows: Rows) -> Described:
    """Draw both views of some rows."""
    device = next(model.parameters()).device
    width = rows.longest()
    history = rows.padded(dataset.item_id_list_field, width).to(device)
    length = rows[rows.histories.length_field].to(device)
    target = rows[dataset.iid_field].to(device)
    drawn: ViewPair = model.augmenter(history, length, target, model.embed_for_augmenter)
    index_maps = tuple(index_map_of(view, length, width) for view in drawn.views)
    kinds, dropped = zip(*(sort_edits(view, length, width) for view in drawn.views))
    nothing = history.new_zeros(len(history), width, width, dtype=torch.float)
    matrices = drawn.matrices or tuple(TransformMatrix(index_map, nothing) for index_map in index_maps)
    quality = sequence_quality(matrices, length, model.settings)
    return Described(history, length, drawn.views, index_maps, kinds, dropped, quality, drawn.candidates)


def _round(values: Any, digits: int = 4) -> Any:
    return np.round(np.asarray(values, dtype=float), digits).tolist()


def _rates(model: Any, dataset: Any, rows: Rows) -> dict[str, Any]:
    """Means over users: shares of each kind of edit, NDCG, and what share of the dropped is noise.

    What denoising drops is counted by its probabilities, over items.
    """
    sums: list[Tensor] = []
    counts, denoised = np.zeros(5), np.zeros(5)  # as _noise_among takes them
    order = rows[rows.histories.length_field].argsort()
    for chunk in order.split(_CHUNK):
        part = rows[chunk]
        seen = _describe(model, dataset, part)
        shares = []
        for kind, dropped, ndcg, index_map in zip(
            seen.kinds, seen.dropped, seen.quality.ndcg, seen.index_maps
        ):
            number = [(kind == code).sum(1) for code in range(len(EDIT_KINDS))]
            number[EDIT_KINDS.index("dropped")] = dropped.sum(1)
            counted = count_edits(index_map, seen.length)
            for name in ("masked", "cropped"):  # of what is not in the view
                number[EDIT_KINDS.index(name)] = counted[name]
            shares.append(torch.stack([*(each / seen.length for each in number), ndcg]))  # [kinds + 1, R]
        sums.append(torch.cat([*shares, seen.quality.floor[None]]).sum(1).cpu().double())
        bad = torch.zeros(seen.history.shape, dtype=torch.bool)
        if dataset.noise is not None:
            bad = torch.from_numpy(_noise_in(dataset, part, seen.history))
        for gone in seen.dropped:
            counts += _count_noise(bad, gone.cpu().double(), seen.length.cpu())
        if model.settings.denoise_strength:
            chances = model.denoiser.drop_probability(seen.history, model.item_embedding.weight)
            chances = chances.cpu().double()
            denoised += _count_noise(bad, chances, seen.length.cpu())
    means = (torch.stack(sums).sum(0) / len(rows)).tolist()
    size = len(EDIT_KINDS) + 1
    views = [means[:size], means[size : 2 * size]]
    found = {
        "users": len(rows),
        "rates": [dict(zip(EDIT_KINDS, _round(view[:-1]))) for view in views],
        "ndcg": _round([view[-1] for view in views]),
        "floor": _round(means[-1]),
    }
    if counts[1] and counts[2]:
        found["noise"] = _noise_among(*counts)
    if denoised[0]:
        found["denoising"] = {"dropped": _round(denoised[2] / denoised[0])}
        if denoised[1] and denoised[2]:
            found["denoising"]["noise"] = _noise_among(*denoised)
    return found


def _count_noise(bad: Tensor, dropped: Tensor, length: Tensor) -> np.ndarray:
    """Items, noise, dropped, noise dropped, and noise dropped if each history dropped as much at random.

    Args:
        bad: which items are noise, ``[R, n]``.
        dropped: which are gone, or the chance of it, ``[R, n]``.
        length: of the histories, ``[R]``.
    """
    by_chance = dropped.sum(1) * bad.sum(1) / length
    sums = (length.sum(), bad.sum(), dropped.sum(), (bad * dropped).sum(), by_chance.sum())
    return np.array([float(one) for one in sums])


def _noise_among(
    items: float, noise: float, dropped: float, noise_dropped: float, by_chance: float
) -> dict[str, float]:
    """How much more often than by chance what is dropped is noise.

    Chance is within each history: short ones lose a larger part and have less noise, so that even random
    drops hold less of it than the data does.
    """
    return {
        "share": _round(noise / items),
        "share_by_chance": _round(by_chance / dropped),
        "share_of_dropped": _round(noise_dropped / dropped),
        "lift": _round(noise_dropped / by_chance) if by_chance else 0.0,
    }


def _noise_in(dataset: Any, rows: Rows, history: Tensor) -> np.ndarray:
    """Which history items ``[R, n]`` of these rows are noise, ``[R, n]``."""
    users, items = np.broadcast_arrays(rows[dataset.uid_field].numpy()[:, None], history.cpu().numpy())
    return dataset.noise.marks(users.ravel(), items.ravel()).reshape(items.shape)


def _matrix(model: Any, dataset: Any, rows: Rows) -> dict[str, Any]:
    """Both views' matrices, averaged over users of one length n: ``[n + new, n]``."""
    seen = [_describe(model, dataset, rows[chunk]) for chunk in torch.arange(len(rows)).split(_CHUNK)]
    length = seen[0].history.size(1)
    index_maps = [torch.cat([one.index_maps[view] for one in seen]) for view in (0, 1)]
    most = max(int(index_map.max()) + 1 - length for index_map in index_maps)
    offered = seen[0].candidates
    size = length + (max(most, 0) if offered is None else offered.size(1))
    views = [_round(to_matrix(index_map, size).mean(0).cpu(), 3) for index_map in index_maps]
    return {"length": length, "users": len(rows), "views": views}


def _case(dataset: Any, seen: Described, row: int, user: str, following: int, floor: float) -> dict[str, Any]:
    length, width = int(seen.length[row]), seen.history.size(1)
    items = seen.history[row, :length].tolist()
    new = [] if seen.candidates is None else [item for item in seen.candidates[row].tolist() if item]
    views = []
    for view, kinds, dropped, ndcg in zip(seen.views, seen.kinds, seen.dropped, seen.quality.ndcg):
        source = []
        for position in range(int(view.length[row])):
            item, index = int(view.items[row, position]), int(view.source[row, position])
            if index >= width:
                new += [item] if item not in new else []
                index = length + new.index(item)
            source.append(index)
        codes = kinds[row, : len(source)].tolist()
        views.append(
            {
                "source": source,
                "kinds": [EDIT_KINDS[code] for code in codes],
                "dropped": dropped[row].nonzero().flatten().tolist(),
                "ndcg": _round(float(ndcg[row])),
            }
        )
    tokens = [str(token) for token in dataset.id2token(dataset.iid_field, [*items, *new, following])]
    return {
        "user": user,
        "length": length,
        "items": tokens[:-1],
        "next": tokens[-1],
        "floor": _round(floor),
        "views": views,
    }


def _cases(model: Any, dataset: Any, rows: Rows, names: list[str]) -> list[Any]:
    seen = _describe(model, dataset, rows)
    floor = seen.quality.floor.tolist()
    following = rows[dataset.iid_field].tolist()
    cases = [_case(dataset, seen, row, user, following[row], floor[row]) for row, user in enumerate(names)]
    if dataset.noise is not None:
        for case, bad in zip(cases, _noise_in(dataset, rows, seen.history)):
            case["noise"] = np.flatnonzero(bad).tolist()
    return cases


def _within(size: int, dataset: Any, cases: list[Any]) -> dict[str, Any]:
    """As many cases as ``size`` bytes hold, with the titles of their items."""

    def items(some: list[Any]) -> set[str]:
        return {token for case in some for token in (*case["items"], case["next"])}

    titles = read_titles(dataset, items(cases))
    told: dict[str, Any] = {}
    for count in range(len(cases), -1, -1):
        named = {token: titles[token] for token in sorted(items(cases[:count])) if token in titles}
        told = {"cases": cases[:count], "titles": named}
        if len(json.dumps(told)) <= size:
            break
    return told


def describe_views(
    model: Any, dataset: Any, users: Sequence[str] | None = None, seed: int = 0
) -> dict[str, Any] | None:
    """What a trained model's augmenter does.

    Args:
        model: any model; only Asar models make views.
        dataset: its training data, which knows its noise.
        users: tokens of the users whose cases to tell; by default a dozen, the same whatever was trained.
        seed: of the draws; the model's own random stream stays where it was.

    Returns:
        Plain values of at most :data:`LARGEST` bytes: ``rates``, ``ndcg`` and ``floor`` over users, ``noise``
        among the dropped, what denoising drops, the averaged ``matrix`` of one length, ``cases`` and
        the ``titles`` of their items.
        Nothing where no views are made.
    """
    rows = dataset.inter_feat
    if not isinstance(model, AsarRec) or not isinstance(rows, Rows):
        return None
    if model.settings.augmentation == "s3rec" or not model.settings.contrasts:
        return None
    rows = rows[rows[CONTRASTIVE_ROW].nonzero().flatten()]
    names = [str(name) for name in dataset.id2token(dataset.uid_field, rows[dataset.uid_field].numpy())]
    # by the names' hashes: a fair sample, and the same people in every run
    shuffled = np.array(
        sorted(range(len(names)), key=lambda row: hashlib.sha256(names[row].encode()).digest())
    )
    lengths = rows[rows.histories.length_field].numpy()[shuffled]
    fits = np.isin(lengths, _LENGTHS)
    fits = fits if fits.any() else np.ones_like(fits)
    common = np.bincount(lengths[fits]).argmax()
    chosen = (
        shuffled[fits][:_CASES] if users is None else [names.index(user) for user in users if user in names]
    )
    with _as_found(model, seed):
        found = {
            **_rates(model, dataset, rows[shuffled[:_USERS]]),
            "matrix": _matrix(model, dataset, rows[shuffled[lengths == common][:_USERS]]),
        }
        told = _cases(model, dataset, rows[chosen], [names[row] for row in chosen]) if len(chosen) else []
    return {**found, **_within(LARGEST - len(json.dumps(found)), dataset, told)}
