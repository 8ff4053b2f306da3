"""The five operations keep their promises: length, order, budget, padding; and their draws are fair."""

import pytest
import torch

from recbole_asarrec.augment import COMPOSED, OPERATIONS, FixedViews, build_view, edit_budget, to_matrix
from recbole_asarrec.augment.operations import crop, insert, mask, reorder, substitute
from recbole_asarrec.config.settings import AUGMENTATIONS, AsarSettings
from recbole_asarrec.config.settings import OPERATIONS as NAMES

pytestmark = pytest.mark.arithmetic


def batch(seed=0, rows=200, width=12):
    torch.manual_seed(seed)
    length = torch.randint(1, width + 1, (rows,))
    length[0], length[1] = 1, width
    history = torch.randint(1, 40, (rows, width)).masked_fill(torch.arange(width) >= length[:, None], 0)
    return history, length


def view_of(name, history, length, edits):
    plan = OPERATIONS[name](length, history.size(1), edits)
    new = torch.full((len(history), plan.anchor.size(1)), 99)
    return plan, build_view(torch.cat([history, new], 1), plan.source)


def test_settings_and_operations_name_the_same():
    assert set(NAMES) == set(OPERATIONS)
    assert {*COMPOSED, *OPERATIONS, "asar", "none", "random_matrix", "s3rec"} == set(AUGMENTATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.9])
def test_every_operation_is_a_hard_semi_doubly_stochastic_matrix(name, ratio):
    history, length = batch()
    plan, view = view_of(name, history, length, edit_budget(length, ratio, 1))
    matrix = to_matrix(plan.source, history.size(1) + plan.anchor.size(1))
    for dim in (1, 2):
        assert set(matrix.sum(dim).unique().tolist()) <= {0.0, 1.0}
    assert (view.length >= 1).all(), "an empty view"
    places = torch.arange(view.items.size(1))
    assert ((view.items > 0) == (places < view.length[:, None])).all(), "padding inside or items beyond"


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_is_written_into_the_input(name):
    history, length = batch()
    copies = history.clone(), length.clone()
    view_of(name, history, length, edit_budget(length, 0.3, 1))
    assert torch.equal(history, copies[0]) and torch.equal(length, copies[1])


def rows_of(view):
    return [items[:n].tolist() for items, n in zip(view.items, view.length)]


def is_subsequence(short, long):
    rest = iter(long)
    return all(item in rest for item in short)


@pytest.mark.parametrize("ratio", [0.1, 0.4])
def test_length_order_and_budget(ratio):
    history, length = batch()
    edits = edit_budget(length, ratio, 1)
    originals = [row[:n].tolist() for row, n in zip(history, length)]
    views = {name: rows_of(view_of(name, history, length, edits)[1]) for name in OPERATIONS}
    for index, (old, c) in enumerate(zip(originals, edits.tolist())):
        n, spared = len(old), min(c, len(old) - 1)
        cropped, masked = views["crop"][index], views["mask"][index]
        assert len(cropped) == n - spared
        assert any(cropped == old[s : s + len(cropped)] for s in range(spared + 1)), "crop is not contiguous"
        assert len(masked) == n - spared and is_subsequence(masked, old)
        shuffled = views["reorder"][index]
        moved = [p for p in range(n) if shuffled[p] != old[p]]
        assert sorted(shuffled) == sorted(old)
        assert not moved or moved[-1] - moved[0] <= c, "reorder reaches beyond its window"
        inserted = views["insert"][index]
        assert len(inserted) == n + c and [item for item in inserted if item != 99] == old
        assert inserted[-1] == old[-1], "the newest item is no longer the newest"
        replaced = views["substitute"][index]
        assert len(replaced) == n and sum(item == 99 for item in replaced) == spared
        assert all(new in (before, 99) for new, before in zip(replaced, old))
        assert views["dropout"][index] == old


@pytest.mark.parametrize("operation", [insert, substitute])
def test_anchors_say_where_new_items_go(operation):
    """CoSeRec chooses new items by what stands there, so the anchor must be right."""
    _, length = batch()
    plan = operation(length, 12, edit_budget(length, 0.3, 1))
    for source, anchor, n in zip(plan.source.tolist(), plan.anchor.tolist(), length.tolist()):
        for slot, place in enumerate(anchor):
            assert (12 + slot in source) == (place >= 0)
            if place >= 0:
                assert place < n
                where = source.index(12 + slot)
                if operation is substitute:
                    assert where == place
                else:
                    following = next(item for item in source[where:] if item < 12)
                    assert following == place


def chi_squared(counts):
    expected = counts.float().mean()
    return ((counts - expected) ** 2 / expected).sum().item()


def test_every_position_is_as_likely_as_another():
    """20,000 draws each; the bounds are .001 quantiles of chi-squared, its degrees of freedom beside them."""
    torch.manual_seed(0)
    length, one = torch.full((20_000,), 8), torch.ones(20_000, dtype=torch.long)
    dropped = (mask(length, 8, one).source < 0).sum(0)
    assert dropped.sum() == 20_000 and chi_squared(dropped) < 24.3  # 7
    replaced = (substitute(length, 8, one).source >= 8).sum(0)
    assert chi_squared(replaced) < 24.3
    starts = (crop(length, 8, 3 * one).source >= 0).long().argmax(1)
    assert chi_squared(torch.bincount(starts, minlength=4)) < 16.3  # 3
    before = torch.bincount(insert(length, 8, one).anchor.squeeze(1), minlength=8)
    assert chi_squared(before) < 24.3
    order = reorder(length[:, None].squeeze(1) * 0 + 3, 3, 2 * one).source  # the whole of three items
    kinds = torch.bincount(order[:, 0] * 3 + order[:, 1], minlength=9)
    assert (kinds > 0).sum() == 6 and chi_squared(kinds[kinds > 0]) < 20.5  # 5


def test_new_items_are_unseen_and_different():
    history, length = batch(rows=300)
    target = torch.randint(1, 40, (300,))
    views = FixedViews(AsarSettings(augmentation=["insert", "substitute"], perturbation_budget=0.3), 500, 50)
    drawn = views(history, length, target, None)
    for view in drawn.views:
        for row, old, next_item in zip(rows_of(view), history.tolist(), target.tolist()):
            new = [item for item in row if item not in old]
            assert len(new) == len(set(new)) and next_item not in new


def test_a_catalogue_with_nothing_new_leaves_no_hole():
    history = torch.arange(1, 6)[None]
    views = FixedViews(AsarSettings(augmentation="insert", perturbation_budget=0.5), 6, 50)
    drawn = views(history, torch.tensor([5]), torch.tensor([5]), None)
    assert rows_of(drawn.views[0]) == [[1, 2, 3, 4, 5]]


def test_lists_pair_up_or_mix():
    history, length = batch(rows=400)
    target = torch.full((400,), 39)
    pair = FixedViews(AsarSettings(augmentation=["crop", "insert"]), 500, 50)(history, length, target, None)
    assert (pair.views[0].length <= length).all() and (pair.views[1].length > length).all()
    mixed = FixedViews(AsarSettings(augmentation=["mask", "insert", "dropout"]), 500, 50)
    kinds = mixed(history, length, target, None).views[0].length - length
    long = length > 1
    assert {-1, 0, 1} == set(kinds[long].tolist()) and ((kinds[long] == 0).float().mean() - 1 / 3).abs() < 0.1


def test_a_view_longer_than_the_backbone_takes_keeps_the_newest():
    history = torch.arange(1, 51)[None]
    views = FixedViews(AsarSettings(augmentation="insert"), 500, 50)
    drawn = views(history, torch.tensor([50]), torch.tensor([60]), None)
    assert drawn.views[0].items.shape == (1, 50) and drawn.views[0].items[0, -1] == 50
