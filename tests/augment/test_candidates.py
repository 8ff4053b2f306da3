"""What a matrix may bring in: unseen items, similar to an item whose position they prefer."""

import pytest
import torch

from recbole_asarrec.augment import MatrixViews, needs_neighbours
from recbole_asarrec.config.settings import AsarSettings

ITEMS, TOP, SIZE = 400, 10, 8


def neighbour_table():
    """Item i is similar to the ten that follow it."""
    table = (torch.arange(ITEMS)[:, None] + torch.arange(TOP) + 1) % ITEMS
    table[0] = 0
    return table


def views(neighbours=None, **keys):
    settings = AsarSettings(augmentation="random_matrix", **keys)
    return MatrixViews(settings, SIZE, ITEMS, 50, neighbours)


def embed(ids, n):
    return (torch.zeros(*ids.shape, SIZE),) * 2


def histories(rows=200, n=6):
    torch.manual_seed(0)
    items = torch.stack([torch.randperm(ITEMS - 1)[:n] + 1 for _ in range(rows)])
    length = torch.randint(1, n + 1, (rows,))
    return items.masked_fill(torch.arange(n) >= length[:, None], 0), length, torch.randint(1, ITEMS, (rows,))


def test_candidates_are_unseen_neighbours_of_the_item_whose_position_they_prefer():
    items, length, target = histories()
    avoid = torch.cat([items, target[:, None]], dim=1)
    drawn, anchors = views(neighbour_table()).draw_candidates(items, length, avoid, embed)
    met, similar = set(), 0
    for row in range(len(items)):
        seen, candidates = set(avoid[row].tolist()), drawn[row].tolist()
        assert len(set(candidates)) == 3 and 0 not in candidates and not seen & set(candidates)
        for candidate, anchor in zip(candidates, anchors[row].tolist()):
            assert anchor < length[row]
            apart = (candidate - int(items[row, anchor])) % ITEMS
            similar += 1 <= apart <= TOP
            met.add(apart)
    assert similar > 0.95 * drawn.numel() and set(range(1, TOP + 1)) <= met, (
        "any neighbour, not the first alone"
    )


def test_a_history_whose_neighbours_are_all_seen_gets_other_items():
    table = torch.zeros(ITEMS, TOP, dtype=torch.long)
    table[5, 0], table[6, 0] = 6, 5
    items, length = torch.tensor([[5, 6]]), torch.tensor([2])
    drawn, _ = views(table).draw_candidates(items, length, torch.tensor([[5, 6, 9]]), embed)
    assert len(set(drawn[0].tolist())) == 3 and not {0, 5, 6, 9} & set(drawn[0].tolist())


def test_without_a_table_the_embeddings_decide():
    torch.manual_seed(0)
    table = torch.nn.functional.normalize(torch.randn(ITEMS, SIZE), dim=-1)
    nearest = (table @ table.T).topk(TOP + 1).indices[:, 1:]
    items, length, target = histories(50)
    avoid = torch.cat([items, target[:, None]], dim=1)
    drawn, anchors = views().draw_candidates(items, length, avoid, lambda ids, n: (table[ids],) * 2)
    among = nearest[items.gather(1, anchors)] == drawn[:, :, None]
    assert among.any(-1).float().mean() > 0.9


def test_a_candidate_mostly_replaces_the_item_that_it_is_similar_to():
    items, length, target = histories(2000)
    torch.manual_seed(1)
    pair = views(neighbour_table(), perturbation_budget=0.3)(items, length, target, embed)
    for view, matrix in zip(pair.views, pair.matrices):
        source, n = matrix.source, items.size(1)
        new = (source >= n) & (source < n + 3)
        row, at = new.nonzero(as_tuple=True)
        apart = (pair.candidates[row, source[row, at] - n] - items[row, at]) % ITEMS
        beside = ((apart >= 1) & (apart <= TOP)).float().mean()
        assert len(row) > 500 and beside > 0.8
        assert (view.length >= 1).all()


def test_uniform_candidates_prefer_no_position():
    items, length, _ = histories(2000)
    drawn, anchors = views(candidates="uniform").draw_candidates(items, length, items, embed)
    assert anchors is None and drawn.unique().numel() == ITEMS - 1


@pytest.mark.parametrize(
    ("keys", "needed"),
    [
        ({"augmentation": "asar"}, True),
        ({"augmentation": "random_matrix"}, True),
        ({"augmentation": "asar", "candidates": "uniform"}, False),
        ({"augmentation": "asar", "num_candidates": 0}, False),
        ({"augmentation": "asar", "similarity": "embedding"}, False),
        ({"augmentation": "mask"}, False),
        ({"augmentation": ["mask", "coserec_insert"]}, True),
    ],
)
def test_neighbours_are_counted_only_where_they_are_used(keys, needed):
    assert needs_neighbours(AsarSettings(**keys)) == needed
